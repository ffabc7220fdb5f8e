// Internals of the rules: one table row per rule, and short texts for fixes.
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

// Rules only see configurations whose values are in range, so they need not fear a zero divisor or
// an overflow.
struct Rule {
  const char* name;
  Severity severity;
  void (*check)(const Config&, Report&);
};

std::span<const Rule> size_rules();  // checked first; the others only if these hold
std::span<const Rule> model_rules();
std::span<const Rule> parallel_rules();
std::span<const Rule> batch_rules();
std::span<const Rule> train_rules();

std::string shown(const Config& config, const char* key);  // "model.heads: 8"

// The divisors of n closest to `wanted`, as "1, 2, 4 or 8".
std::string divisors_near(int64_t n, int64_t wanted);

// The multiples of `step` just below and above n, as "48 or 56"; only the upper one if the lower is
// zero.
std::string multiples_near(int64_t n, int64_t step);

}  // namespace stretto
