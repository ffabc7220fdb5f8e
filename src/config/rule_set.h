// Inside the rules: one row per rule, and the small texts that fixes are made of.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/rules.h"

namespace stretto {

class Report {
 public:
  Report(std::vector<Finding>& out, Severity severity, const char* rule)
      : out_(out), severity_(severity), rule_(rule) {}
  void add(std::string key, std::string message, std::string fix) {
    out_.push_back({severity_, rule_, std::move(key), std::move(message), std::move(fix)});
  }

 private:
  std::vector<Finding>& out_;
  Severity severity_;
  const char* rule_;
};

// Rules run only on configurations whose values are in range: no zero divisor, no overflow.
struct Rule {
  const char* name;
  Severity severity;
  void (*check)(const Config&, Report&);
};

std::span<const Rule> size_rules();  // first; the others only where these are kept
std::span<const Rule> model_rules();
std::span<const Rule> parallel_rules();
std::span<const Rule> batch_rules();
std::span<const Rule> train_rules();

std::string shown(const Config& config, const char* key);  // "model.heads: 8"

// Divisors of n, those nearest to `wanted`, as "1, 2, 4 or 8".
std::string divisors_near(int64_t n, int64_t wanted);

// The multiples of `step` around n: "48 or 56"; only the upper one when the lower is zero.
std::string multiples_near(int64_t n, int64_t step);

}  // namespace stretto
