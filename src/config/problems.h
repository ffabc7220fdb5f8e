// Collects everything that is wrong with a configuration, so that the user sees it all at once.
#pragma once

#include <string>
#include <vector>

namespace stretto {

struct Problem {
  std::string text;  // place, key, value and what is wrong; may have several lines
  std::string fix;
};

class Problems {
 public:
  void add(std::string text, std::string fix) { all_.push_back({std::move(text), std::move(fix)}); }
  bool empty() const { return all_.empty(); }
  const std::vector<Problem>& all() const { return all_; }

  // Error (bad_config) with every problem; the last one's fix is the Error's hint.
  void throw_if_any() const;

 private:
  std::vector<Problem> all_;
};

}  // namespace stretto
