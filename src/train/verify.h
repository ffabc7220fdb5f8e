// Proof that every topology trains the same model: a grid of topologies runs on thread ranks, and
// each is compared with one process (or with a topology that must give the same bits) that has the
// same seed and data.
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
  // Tighter bounds, which hold before any weight has changed.
  std::optional<Limits> first_step = {};
  bool exact() const { return any_step.loss == 0; }
};

// The topology that trains and saves the first half of the steps.
struct VerifySaver {
  std::string name;  // empty: none, the run is not interrupted
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
// data and precision; its own topology is ignored. References come before the cases that are
// compared with them. The last cases pair up six of the topologies: one saves half-way, the other
// resumes. `left_out` receives the topologies that fit the ranks but not the model.
std::vector<VerifyCase> verify_grid(const Config& base, int64_t most_ranks, int64_t steps,
                                    std::vector<LeftOut>* left_out = nullptr);

// Runs the cases in order and calls `on_row` after each comparison. References give no rows. Throws
// Error(resumable) when a stop signal comes; what was saved is removed.
std::vector<VerifyRow> run_verify(const std::vector<VerifyCase>& cases,
                                  const std::function<void(const VerifyRow&)>& on_row = {});

}  // namespace stretto
