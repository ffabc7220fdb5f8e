#include "hf/settings.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace stretto {

using nlohmann::json;

HfSettings::HfSettings(json object, std::string file, std::string readable)
    : object_(std::move(object)), file_(std::move(file)), readable_(std::move(readable)) {}

int64_t HfSettings::size(const char* key) {
  const json found = value(key);
  if (found.is_number_integer()) {
    const auto number = found.get<int64_t>();
    if (number > 0 && number <= (int64_t{1} << 31)) return number;
  }
  refuse_model(fmt::format("{}, not a size", text_of(key)));
}

int64_t HfSettings::size(const char* key, int64_t otherwise) {
  return value(key).is_null() ? otherwise : size(key);
}

bool HfSettings::flag(const char* key, bool otherwise) {
  const json found = value(key);
  if (found.is_null()) return otherwise;
  if (!found.is_boolean()) {
    refuse_model(fmt::format("{}, neither true nor false", text_of(key)));
  }
  return found.get<bool>();
}

json HfSettings::value(const char* key) {
  known_.insert(key);
  return object_.value(key, json());
}

HfSettings HfSettings::inside(const char* key) {
  known_.insert(key);
  const json object = object_.value(key, json::object());
  if (!object.is_object()) refuse(key);
  HfSettings settings(object, file_, readable_);
  settings.prefix_ = fmt::format("{}{}.", prefix_, key);
  return settings;
}

void HfSettings::require(const char* key, std::initializer_list<json> allowed) {
  known_.insert(key);
  if (!object_.contains(key)) return;
  if (std::find(allowed.begin(), allowed.end(), object_[key]) == allowed.end()) refuse(key);
}

void HfSettings::harmless(std::span<const char* const> keys) {
  known_.insert(keys.begin(), keys.end());
}

void HfSettings::finish() const {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : object_.items()) {
    if (known_.count(key) == 0) unknown.push_back(text_of(key));
  }
  if (unknown.empty()) return;
  constexpr size_t kShown = 5;
  const size_t more = unknown.size() - std::min(unknown.size(), kShown);
  unknown.resize(unknown.size() - more);
  throw Error(
      ExitCode::bad_data,
      fmt::format("{}: {}{}, and import cannot tell whether that changes the model", file_,
                  fmt::join(unknown, ", "), more > 0 ? fmt::format(" and {} more", more) : ""),
      "remove what does not change it from config.json");
}

void HfSettings::refuse(const char* key) const {
  refuse_model(fmt::format("{}, which is not supported", text_of(key)));
}

void HfSettings::refuse_model(const std::string& why) const {
  throw Error(ExitCode::bad_data, fmt::format("{}: {}", file_, why),
              fmt::format("models that can be imported: {}", readable_));
}

std::string HfSettings::text_of(const std::string& key) const {
  if (!object_.contains(key)) return fmt::format("{}{} is missing", prefix_, key);
  constexpr size_t kLongest = 80;
  std::string text = object_[key].dump(-1, ' ', true);  // ASCII, so that it can be cut anywhere
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return fmt::format("{}{} is {}", prefix_, key, text);
}

}  // namespace stretto
