#include "bench/run_names.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "config/schema.h"
#include "plan/forecast.h"

namespace stretto {
namespace {

constexpr size_t kMostKeys = 4;  // a name with more keys would not be read

std::string own_name(const RunRecord& r) {
  if (!r.label.empty()) return r.label;
  return fmt::format("{} {}", r.config.model.name, plan::describe(plan::layout_of(r.config)));
}

// The keys that change what runs and whose values differ among these records.
std::vector<std::string> keys_apart(const std::vector<const RunRecord*>& records) {
  std::vector<std::string> keys;
  for (const Key& key : config_keys()) {
    if (key.name == "output" || key.name.starts_with("log.")) continue;
    std::set<std::string> values;
    for (const RunRecord* r : records) values.insert(render_key(key.name, r->config));
    if (values.size() > 1 && keys.size() < kMostKeys) keys.push_back(key.name);
  }
  return keys;
}

}  // namespace

std::vector<std::string> run_names(const std::vector<const RunRecord*>& records) {
  std::map<std::string, std::vector<const RunRecord*>> namesakes;
  for (const RunRecord* r : records) namesakes[own_name(*r)].push_back(r);
  std::map<std::string, std::vector<std::string>> apart;
  for (const auto& [name, of] : namesakes) {
    if (of.size() > 1) apart[name] = keys_apart(of);
  }
  std::vector<std::string> names;
  for (const RunRecord* r : records) {
    std::string name = own_name(*r);
    for (const std::string& key : apart[own_name(*r)]) {
      name += fmt::format(" {}={}", key, render_key(key, r->config));
    }
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace stretto
