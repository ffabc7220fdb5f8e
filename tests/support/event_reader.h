// Reads event files as TensorBoard does, with nothing of the writer's: bit by bit, and strict.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/temp_dir.h"

namespace stretto::test {

struct ReadEvent {
  std::vector<int> fields;  // numbers in the order of the file
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  bool start = false;  // of a session
  std::vector<std::pair<std::string, float>> scalars;
};

class EventReader {
 public:
  explicit EventReader(std::string_view bytes) : rest_(bytes) {}

  static std::vector<ReadEvent> read(std::string_view file) {
    EventReader reader(file);
    std::vector<ReadEvent> events;
    while (!reader.rest_.empty()) events.push_back(event_of(reader.record()));
    return events;
  }

 private:
  static void require(bool good, const char* what) {
    if (!good) throw std::runtime_error(what);
  }

  std::string_view take(uint64_t bytes) {
    require(bytes <= rest_.size(), "the file ends early");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  template <typename T>
  T fixed() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    throw std::runtime_error("a number without an end");
  }

  // Polynomial division, a bit at a time; then what TFRecord does to it.
  static uint32_t masked_checksum(std::string_view bytes) {
    uint32_t crc = ~0u;
    for (const char c : bytes) {
      for (int bit = 0; bit < 8; ++bit) {
        const bool odd = ((crc ^ (static_cast<unsigned char>(c) >> bit)) & 1u) != 0;
        crc = (crc >> 1) ^ (odd ? 0x82f63b78u : 0u);
      }
    }
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  }

  std::string_view record() {
    const std::string_view length = rest_.substr(0, 8);
    const auto bytes = fixed<uint64_t>();
    require(fixed<uint32_t>() == masked_checksum(length), "the length's checksum is wrong");
    const std::string_view content = take(bytes);
    require(fixed<uint32_t>() == masked_checksum(content), "the content's checksum is wrong");
    return content;
  }

  // The next field must be one of `type`; returns its number.
  int field(unsigned type) {
    const uint64_t key = varint();
    require((key & 7) == type, "a field of another type");
    return static_cast<int>(key >> 3);
  }
  unsigned next_type() const { return static_cast<unsigned char>(rest_[0]) & 7u; }

  std::string_view text() { return take(varint()); }

  static std::pair<std::string, float> scalar_of(std::string_view bytes) {
    EventReader value(bytes);
    require(value.field(2) == 1, "no tag");
    const std::string tag(value.text());
    require(value.field(5) == 2, "no simple_value");
    const auto number = value.fixed<float>();
    require(value.rest_.empty(), "more than a scalar");
    return {tag, number};
  }

  static ReadEvent event_of(std::string_view bytes) {
    EventReader in(bytes);
    ReadEvent event;
    while (!in.rest_.empty()) {
      const unsigned type = in.next_type();
      const int number = in.field(type);
      event.fields.push_back(number);
      if (number == 1 && type == 1) {
        event.wall_time = in.fixed<double>();
      } else if (number == 2 && type == 0) {
        event.step = static_cast<int64_t>(in.varint());
      } else if (number == 3 && type == 2) {
        event.file_version = in.text();
      } else if (number == 5 && type == 2) {
        EventReader summary(in.text());
        while (!summary.rest_.empty()) {
          require(summary.field(2) == 1, "not a value");
          event.scalars.push_back(scalar_of(summary.text()));
        }
      } else if (number == 7 && type == 2) {
        EventReader log(in.text());
        require(log.field(0) == 1, "no status");
        event.start = log.varint() == 1;
      } else {
        throw std::runtime_error("a field that TensorBoard does not know so");
      }
    }
    return event;
  }

  std::string_view rest_;
};

// Names of the event files, in the order in which TensorBoard reads them.
inline std::set<std::string> event_files(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name.find("tfevents") != std::string::npos) names.insert(name);
  }
  return names;
}

using Curves = std::map<std::string, std::vector<std::pair<int64_t, float>>>;  // by tag

// What TensorBoard shows of a directory: the start of a session takes back its step and later ones.
inline Curves curves_of(const std::string& directory) {
  namespace fs = std::filesystem;
  Curves curves;
  for (const std::string& name : event_files(directory)) {
    for (const ReadEvent& event : EventReader::read(content_of(fs::path(directory) / name))) {
      for (auto& [tag, points] : curves) {
        while (event.start && !points.empty() && points.back().first >= event.step) {
          points.pop_back();
        }
      }
      for (const auto& [tag, value] : event.scalars) curves[tag].push_back({event.step, value});
    }
  }
  return curves;
}

}  // namespace stretto::test
