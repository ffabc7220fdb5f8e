// Proof that every topology trains the same model: a grid of them on thread ranks, each against one
// process (or a twin that must give the same bits) with the same seed and data.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "train/step_record.h"

namespace stretto {

struct Limits {
  double loss = 0;
  double grad_norm = 0;
};

// How far two curves may lie apart, relative to the curve compared with.
struct Tolerance {
  Limits any_step;
  const char* reason = "";
  std::optional<Limits> first_step = {};  // closer, as long as no weight has changed
  bool exact() const { return any_step.loss == 0; }
};

// Who trained and saved the first half of the steps.
struct VerifySaver {
  std::string name;  // empty: nobody, the run is in one piece
  Config config;
};

// One topology of the grid.
struct VerifyCase {
  std::string name;     // "dp2 x tp2"
  std::string against;  // name of the case to compare with; empty: a reference of its own
  Config config;
  Tolerance tolerance;
  VerifySaver saved_by = {};
};

// A topology that is not in the grid because it does not fit the configuration.
struct LeftOut {
  std::string name, why;
};

struct VerifyRow {
  std::string name, against;
  int64_t ranks = 1;
  Tolerance tolerance;
  std::vector<double> loss_differences;  // relative, by step
  std::vector<double> norm_differences;
  bool bit_equal = false;
  std::string error;  // the run failed

  double max_loss_difference() const;
  double max_norm_difference() const;
  bool passed() const;
};

// The topologies that fit `most_ranks` and the model (heads, layers, batch). `base` gives model,
// data and precision; its own topology is ignored. References come before what is compared with
// them. Then every pair of six of the topologies: saved half-way on one, resumed on the other.
// `left_out` hears of those that would fit the ranks, but not the model.
std::vector<VerifyCase> verify_grid(const Config& base, int64_t most_ranks, int64_t steps,
                                    std::vector<LeftOut>* left_out = nullptr);

// Runs the cases in order; `on_row` hears of each comparison as it is made. References give no
// rows. Throws Error(resumable) when a stop signal comes in between; what was saved is gone then.
std::vector<VerifyRow> run_verify(const std::vector<VerifyCase>& cases,
                                  const std::function<void(const VerifyRow&)>& on_row = {});

}  // namespace stretto
