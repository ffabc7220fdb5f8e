#include "base/strict_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "base/error.h"

namespace stretto {
namespace {

using Json = nlohmann::json;

// Checks the structure while parsing. The keys of each open object are kept in one set per depth.
class CheckingSax : public nlohmann::json_sax<Json> {
 public:
  explicit CheckingSax(const std::string& name) : name_(name) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }

  bool start_object(std::size_t) override {
    value();
    open();
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override {
    value();
    open();
    return true;
  }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    if (!keys_[static_cast<size_t>(depth_ - 1)].insert(key).second) {
      fail(fmt::format("the key \"{}\" appears twice in one object", key));
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // The message begins with identifiers of the library, which mean nothing to users.
    const std::string text = error.what();
    const size_t colon = text.find(": ");
    fail(fmt::format("at byte {}: {}", position,
                     colon == std::string::npos ? text : text.substr(colon + 2)));
    return false;
  }

 protected:
  int depth() const { return depth_; }
  virtual bool value() { return true; }

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ExitCode::bad_data, fmt::format("{}: bad JSON: {}", name_, problem),
                "correct the file or export it again");
  }

 private:
  void open() {
    if (++depth_ > kMaxJsonDepth) fail(fmt::format("nested deeper than {}", kMaxJsonDepth));
    if (keys_.size() < static_cast<size_t>(depth_)) keys_.emplace_back();
    keys_[static_cast<size_t>(depth_ - 1)].clear();
  }
  bool close() {
    --depth_;
    return true;
  }

  const std::string& name_;
  int depth_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;
};

class TextSax final : public CheckingSax {
 public:
  TextSax(std::string_view wanted, const std::string& name, std::string& out)
      : CheckingSax(name), wanted_(wanted), out_(out) {}

  bool key(string_t& key) override {
    CheckingSax::key(key);
    if (depth() == 1) armed_ = key == wanted_;
    return true;
  }

  bool string(string_t& text) override {
    if (armed_ && depth() == 1) {
      out_.swap(text);
      armed_ = false;
      found_ = true;
      return true;
    }
    return value();
  }

  bool start_object(std::size_t size) override {
    object_ = true;
    return CheckingSax::start_object(size);
  }

  bool found() const { return found_; }

 protected:
  bool value() override {
    if (!object_) fail("an object is expected on each line");
    if (armed_ && depth() == 1) fail(fmt::format("\"{}\" is not a string", wanted_));
    return true;
  }

 private:
  std::string_view wanted_;
  std::string& out_;
  bool armed_ = false;
  bool found_ = false;
  bool object_ = false;  // has begun
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& name) {
  CheckingSax check(name);
  Json::sax_parse(text.begin(), text.end(), &check);
  return Json::parse(text.begin(), text.end());
}

bool parse_json_text(std::string_view text, std::string_view key, const std::string& name,
                     std::string& out) {
  TextSax sax(key, name, out);
  Json::sax_parse(text.begin(), text.end(), &sax);
  return sax.found();
}

std::string json_quote(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace stretto
