#include "config/interpolate.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "config/schema.h"
#include "config/suggest.h"

namespace stretto {
namespace {

[[noreturn]] void fail(const Place& place, const std::string& what, const std::string& fix) {
  throw Error(ExitCode::bad_config, fmt::format("{}  {}", place.text(), what), fix);
}

void collect_paths(const YamlNode& node, const std::string& prefix,
                   std::vector<std::string>& paths) {
  for (size_t i = 0; i < node.keys.size() && paths.size() < 1000; ++i) {
    const std::string path = prefix + node.keys[i].name;
    paths.push_back(path);
    collect_paths(node.items[i], path + ".", paths);
  }
}

}  // namespace

const YamlNode* Interpolator::look_up(const std::string& path) const {
  const YamlNode* node = &root_;
  size_t start = 0;
  while (node != nullptr && start <= path.size()) {
    const size_t dot = std::min(path.find('.', start), path.size());
    node = node->find(std::string_view(path).substr(start, dot - start));
    start = dot + 1;
  }
  return node;
}

void Interpolator::spend(size_t amount, const Place& place) {
  if (amount > budget_) {
    fail(place, "${...} expands to more than a million characters", "shorten the chain");
  }
  budget_ -= amount;
}

YamlNode Interpolator::value_of(const std::string& path, const Place& place) {
  const std::string shown = printable(path.substr(0, 60));
  const YamlNode* found = look_up(path);
  if (found == nullptr) {
    std::vector<std::string> paths;
    collect_paths(root_, "", paths);
    std::string fix = "refer to a key, or set it under `variables:` and write ${variables.NAME}";
    if (find_key(path) != nullptr) fix = fmt::format("set {} in the file", path);
    fix = did_you_mean(path, paths, fix);
    if (look_up("variables." + path) != nullptr)
      fix = fmt::format("write ${{variables.{}}}", shown);
    fail(place, fmt::format("${{{}}}: nothing has this name", shown), fix);
  }
  if (std::find(open_.begin(), open_.end(), path) != open_.end() || open_.size() >= 64) {
    fail(place, fmt::format("${{{}}} refers to itself", shown), "break the circle");
  }
  open_.push_back(path);
  YamlNode value = expand(*found);
  open_.pop_back();
  return value;
}

void Interpolator::expand_scalar(YamlNode& node) {
  const std::string text = std::move(node.text);
  node.text.clear();
  size_t at = 0;
  while (at < text.size()) {
    const size_t open = text.find("${", at);
    if (open == std::string::npos) break;
    if (open > at && text[open - 1] == '\\') {
      node.text.append(text, at, open - 1 - at).append("${");
      at = open + 2;
      continue;
    }
    const size_t close = text.find('}', open);
    if (close == std::string::npos) fail(node.place, "'${' without '}'", "close it, or write \\${");
    const YamlNode value = value_of(text.substr(open + 2, close - open - 2), node.place);
    if (open == 0 && close + 1 == text.size()) {
      const Place place = node.place;
      node = value;
      node.place = place;  // its origin is the place of the reference
      return;
    }
    if (value.is_mapping() || value.is_sequence()) {
      fail(node.place, "a list or mapping cannot be part of a text", "refer to a single value");
    }
    spend(value.text.size() + 1, node.place);
    node.text.append(text, at, open - at).append(value.text);
    at = close + 1;
  }
  node.text.append(text, at, std::string::npos);
}

YamlNode Interpolator::expand(const YamlNode& node) {
  spend(1 + node.text.size(), node.place);
  YamlNode result;
  result.kind = node.kind;
  result.text = node.text;
  result.quoted = node.quoted;
  result.place = node.place;
  result.keys = node.keys;
  if (result.is_scalar() && result.text.find("${") != std::string::npos) expand_scalar(result);
  for (const YamlNode& item : node.items) result.items.push_back(expand(item));
  return result;
}

}  // namespace stretto
