// The options of `stretto plan`, and whether they make sense together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stretto::cli {

struct PlanOptions {
  std::vector<std::string> model;  // a model's name, or words as for `stretto train`
  std::string cluster = "h100", software = "stretto", precision, machine;
  std::optional<int64_t> gpus, global_batch, seq_len;
  std::optional<int64_t> dp, tp, pp, micro_batch, interleave, zero;
  std::string recompute, schedule;
  size_t top = 10;
  bool done = false;
  bool explain = false, json = false, csv = false, rejected = false, tight = false, scale = false;
  std::string tokens, deadline, svg;
  std::optional<double> budget, price;
};

// Throws Error (usage) for values and combinations that make no sense.
void check_options(const PlanOptions& options);

}  // namespace stretto::cli
