// The keys of a config.json, each of which must be accounted for.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>

namespace stretto {

// An object in config.json. Each reading function marks its key as known; finish() refuses all
// other keys, because they may change what the model computes. Errors are bad_data and name the key
// and its value.
class HfSettings {
 public:
  // `file` and `readable` (what can be imported) are for messages.
  HfSettings(nlohmann::json object, std::string file, std::string readable);

  int64_t size(const char* key);  // must be there
  int64_t size(const char* key, int64_t otherwise);
  bool flag(const char* key, bool otherwise);  // null counts as absent
  nlohmann::json value(const char* key);       // null if absent
  HfSettings inside(const char* key);          // an object; empty if absent
  // Refuses values other than these. The key may be absent.
  void require(const char* key, std::initializer_list<nlohmann::json> allowed);
  // Accepts any value: these keys do not change what the model computes.
  void harmless(std::span<const char* const> keys);
  void finish() const;

  [[noreturn]] void refuse(const char* key) const;  // its value is not supported
  [[noreturn]] void refuse_model(const std::string& why) const;

 private:
  std::string text_of(const std::string& key) const;  // "attn_config.rope is true"

  nlohmann::json object_;
  std::string file_, readable_;
  std::string prefix_;  // "attn_config." for an object inside another
  std::set<std::string> known_;
};

}  // namespace stretto
