#include "train/event_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>

#include "base/crc32c.h"
#include "base/host.h"

namespace stretto {
namespace {

// Field numbers of TensorFlow's event.proto and summary.proto.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2 };
enum SessionLogField { kStatus = 1 };
constexpr uint64_t kStart = 1;  // SessionLog.SessionStatus

enum WireType { kVarint = 0, kEightBytes = 1, kText = 2, kFourBytes = 5 };

template <typename Unsigned>
void put_bytes(std::string& out, Unsigned value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, int field, WireType type) {
  put_varint(out, static_cast<uint64_t>(field << 3 | type));
}

void put_number(std::string& out, int field, uint64_t value) {
  put_key(out, field, kVarint);
  put_varint(out, value);
}

void put_double(std::string& out, int field, double value) {
  put_key(out, field, kEightBytes);
  put_bytes(out, std::bit_cast<uint64_t>(value));
}

void put_float(std::string& out, int field, float value) {
  put_key(out, field, kFourBytes);
  put_bytes(out, std::bit_cast<uint32_t>(value));
}

void put_text(std::string& out, int field, std::string_view text) {
  put_key(out, field, kText);
  put_varint(out, text.size());
  out += text;
}

double seconds_since_1970() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

std::string event(int64_t step, int what, std::string_view content) {
  std::string out;
  put_double(out, kWallTime, seconds_since_1970());
  if (step != 0) put_number(out, kStep, static_cast<uint64_t>(step));
  put_text(out, what, content);
  return out;
}

// A record may hold other records. The checksum of bytes that hold their own checksum says little;
// so TensorFlow turns it and adds a constant.
uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

std::string record(std::string_view event) {
  std::string out;
  put_bytes(out, uint64_t{event.size()});
  put_bytes(out, masked_crc32c(out));
  out += event;
  put_bytes(out, masked_crc32c(event));
  return out;
}

std::string beginning(int64_t first_step) {
  std::string start;
  put_number(start, kStatus, kStart);
  return record(event(0, kFileVersion, "brain.Event:2")) +
         record(event(first_step, kSessionLog, start));
}

// The files of a directory are read in the order of their names, so a name comes after all that are
// there: also in the second of the last start, or where the clock of another machine was ahead.
std::string next_name(Fs& fs, const std::string& directory) {
  constexpr std::string_view kPrefix = "events.out.tfevents.";
  constexpr int64_t kEnd = 9'999'999'999;  // of ten digits
  auto time = static_cast<int64_t>(seconds_since_1970());
  for (const std::string& name : fs.list(directory)) {
    if (!name.starts_with(kPrefix)) continue;
    int64_t its_time = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), its_time);
    if (its_time < kEnd) time = std::max(time, its_time + 1);
  }
  std::string name = fmt::format("{}{:010}.{}", kPrefix, time, host_name());
  while (fs.info(join_path(directory, name))) name += "+";  // after the last second that has a name
  return name;
}

}  // namespace

EventFile::EventFile(Fs& fs, const std::string& directory, int64_t step) {
  if (directory.empty()) return;
  make_dirs(fs, directory);
  file_.emplace(fs, join_path(directory, next_name(fs, directory)), beginning(step + 1));
}

void EventFile::write(int64_t step, std::span<const Scalar> scalars) {
  if (!file_) return;
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_text(value, kTag, scalar.tag);
    put_float(value, kSimpleValue, static_cast<float>(scalar.value));
    put_text(summary, kValue, value);
  }
  file_->write(record(event(step, kSummary, summary)));
}

void EventFile::sync() {
  if (file_) file_->sync();
}

}  // namespace stretto
