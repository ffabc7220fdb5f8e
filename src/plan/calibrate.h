// From measured runs to constants. The same functions serve the exam over the published tables and
// `stretto plan calibrate` over our own records.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/fit.h"
#include "plan/observations.h"

namespace stretto::plan {

// Constants of the memory model. A fit of times leaves them alone, and a fit of memory those of
// time.
const std::vector<Constant>& memory_constants();

// Rows without a time (or a memory) are left out. Deterministic.
FitResult fit_seconds(const Cluster& cluster, const Stack& stack,
                      const std::vector<Observation>& rows);
FitResult fit_memory(const Cluster& cluster, const Stack& stack,
                     const std::vector<Observation>& rows);

struct FoundConstant {
  Constant id;
  double value = 0;
  double sigma = 0;  // relative, after the fit
  double prior = 0;
  double identified = 0;  // 1: by the runs alone, 0: by the prior alone
};

struct SuspectRow {
  std::string id;
  double residual = 0;  // predicted over measured, minus one
};

struct ProposedRun {
  Workload work;
  Layout layout;
  double predicted_seconds = 0;
  double gain = 0;        // by how many percent the mean uncertainty of the candidates falls
  std::string separates;  // the constant about which it tells most
};

struct Calibration {
  Constants constants;
  double spread = 0;         // robust sigma of what was fitted
  int64_t most_devices = 0;  // of any run
  // With fewer runs than this the residual is close to nothing whatever the constants are, so it
  // does not tell how far off another layout will be.
  static constexpr size_t kEnoughRuns = 8;
  bool has_enough_runs() const { return rows >= kEnoughRuns; }
  double common_factor = 1;  // measured over predicted before the fit (median)
  size_t rows = 0, memory_rows = 0;
  // Of the rows with memory, predicted against measured: relative, and the row that is worst. Our
  // own runtime's memory is counted, not fitted: an error here is one of the count.
  double memory_error = 0, worst_memory_error = 0;  // median and largest, without a sign
  std::string worst_memory;
  std::vector<FoundConstant> found;
  std::vector<std::string> doubts;  // reasons not to trust these constants; empty if there are none
  // Off by more than three times the spread: to be measured again.
  std::vector<SuspectRow> suspects;
  std::vector<ProposedRun> proposals;  // the next runs, most informative first
};

// `candidates` are layouts one could run next.
Calibration calibrate(const Cluster& cluster, const Stack& stack,
                      const std::vector<Observation>& rows,
                      const std::vector<Observation>& candidates, size_t proposals);

std::string calibration_text(const Calibration& result);
nlohmann::json calibration_json(const Calibration& result);

}  // namespace stretto::plan
