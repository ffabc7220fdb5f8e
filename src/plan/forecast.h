// Predicts how long a run of our own engine takes on this machine, from its configuration and from
// what `stretto doctor` measured. Sweeps show it before a run, and tables beside every measured
// figure.
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

// A run that was measured already. The ratio of its measured to its predicted time shows how this
// machine and build differ from those to which the constants were fitted.
struct KnownRun {
  Config config;
  double seconds = 0;  // median step
};

// `machine` is the text of `stretto doctor --json`, which run records contain. Empty if no forecast
// can be made: rates not measured, a GPU that no cluster file describes, or an explicit list of
// layers per stage. With known runs the prediction is multiplied by their median ratio, and its
// interval is narrower.
std::optional<Forecast> forecast_run(const Config& config, const std::string& machine,
                                     std::span<const KnownRun> known = {});

// The machine of a run as a cluster; empty if forecast_run cannot describe it.
std::optional<Cluster> cluster_of_run(const Config& config, const std::string& machine);

// The layout and the work that a configuration describes.
Layout layout_of(const Config& config);
Workload workload_of(const Config& config);

// The precision of runs that do not state theirs: fp32 on CPUs, amp_bf16 on GPUs.
Precision default_precision(const Cluster& cluster);

}  // namespace stretto::plan
