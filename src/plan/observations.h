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
  std::string comparison;  // names a group of rows that are ranked against each other
  Workload work;
  Layout layout;
  double seconds = 0;  // per iteration; 0: not measured
  double memory = 0;   // bytes; 0: not measured
  // Own runs only: bytes to be expected of a process that holds several ranks and libraries of its
  // own; 0: use the memory model.
  double expected_memory = 0;
  bool out_of_memory = false;
  bool repeat = false;                      // printed in two tables: ranked in both, fitted once
  std::string same_as;                      // id of the row it repeats, else its own
  std::string anomaly;                      // why the row is known to be odd; empty: none
  std::map<std::string, std::string> keys;  // what can be held out: "hidden" -> "14400"

  // Own runs only: the machine of that run, if it is not the one that the user asks about.
  std::shared_ptr<const Cluster> cluster;
  // How machine and software at that time differed from the stack's description.
  bool before_repair = false;    // before the cluster's hosts were repaired
  bool boost_clock = false;      // the fast clock mode
  bool softmax_fused = false;    // even if the stack's rule says otherwise
  bool whole_recompute = false;  // recomputation did not stop early yet
};

// The cluster and stack as they were for a row, with these constants.
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

// Rows of the published tables. `file` is mpt, mosaicgpt, bloom or fugaku; `part` is a hardware
// name (a100_80gb) or, for fugaku, a model (124M, 30B). Suggested corrections are applied.
std::vector<Observation> published_rows(const std::vector<ReferenceRow>& rows,
                                        const std::string& file, const std::string& part);

}  // namespace stretto::plan
