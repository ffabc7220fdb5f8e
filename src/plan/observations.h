// Measured runs as the planner sees them: from the published tables, or from our own records.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plan/cluster.h"
#include "plan/stack.h"
#include "plan/workload.h"
#include "reference/rows.h"

namespace stretto::plan {

struct Observation {
  std::string id;
  std::string comparison;  // rows of one decision: a group the rank figures use
  Workload work;
  Layout layout;
  double seconds = 0;  // per iteration; 0: not measured
  double memory = 0;   // bytes; 0: not measured
  // Own runs: bytes that were to be expected where a process holds ranks beside its own libraries;
  // 0: what the memory model says.
  double expected_memory = 0;
  bool out_of_memory = false;
  bool repeat = false;                      // printed twice: ranked in both tables, fitted once
  std::string same_as;                      // id of the row it repeats, else its own
  std::string anomaly;                      // why the row is known to be odd; empty: none
  std::map<std::string, std::string> keys;  // what can be held out: "hidden" -> "14400"

  // Own runs: the machine of that run as a cluster, where it differs from the one asked about.
  std::shared_ptr<const Cluster> cluster;
  // Facts of that day's machine and software that differ from the stack's own.
  bool before_repair = false;    // the host repair of the cluster came later
  bool boost_clock = false;      // the fast clock mode
  bool softmax_fused = false;    // always, whatever the stack's own rule
  bool whole_recompute = false;  // older than a stack whose recomputation stops early
};

// The cluster and stack as they were for this row, under these constants.
struct Setting {
  Cluster cluster;
  Stack stack;
  double factor = 1;  // on the whole iteration
};
Setting setting_of(const Cluster& cluster, const Stack& stack, const Constants& constants,
                   const Observation& row);

double predicted_seconds(const Cluster& cluster, const Stack& stack, const Constants& constants,
                         const Observation& row);
double predicted_memory(const Cluster& cluster, const Stack& stack, const Constants& constants,
                        const Observation& row);

// Rows of the published tables. `file` is mpt, mosaicgpt, bloom or fugaku; `part` a hardware name
// (a100_80gb) or, for fugaku, the model (124M, 30B). Suggested fixes are applied.
std::vector<Observation> published_rows(const std::vector<ReferenceRow>& rows,
                                        const std::string& file, const std::string& part);

}  // namespace stretto::plan
