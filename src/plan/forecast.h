// What one run of our own engine takes on this machine, from its configuration and from what
// `stretto doctor` measured. Used by the sweep's plan and beside every measured figure.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "plan/search.h"

namespace stretto::plan {

struct Forecast {
  double seconds = 0;  // per step
  double low = 0, high = 0;
  Estimate estimate;  // where the seconds go
};

// A run that is already measured: the ratio of measured to predicted time says what this machine
// and this build do otherwise than those whose runs the constants were fitted to.
struct KnownRun {
  Config config;
  double seconds = 0;  // median step
};

// `machine` is the text of `stretto doctor --json`, as run records carry it. Empty when nothing can
// be said: rates not measured, a GPU that no cluster file describes, layers dealt out by hand.
// With known runs the prediction is multiplied by their median ratio and its interval is narrower.
std::optional<Forecast> forecast_run(const Config& config, const std::string& machine,
                                     std::span<const KnownRun> known = {});

// The machine of a run as a cluster; empty where forecast_run is.
std::optional<Cluster> cluster_of_run(const Config& config, const std::string& machine);

// The layout and the work that a configuration describes.
Layout layout_of(const Config& config);
Workload workload_of(const Config& config);

// Of runs that do not say theirs: CPUs compute in fp32, GPUs in amp_bf16.
Precision default_precision(const Cluster& cluster);

}  // namespace stretto::plan
