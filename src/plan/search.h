// Every way to lay a model out over the devices, priced and ranked.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/cost.h"
#include "plan/memory.h"

namespace stretto::plan {

// What the search tries, unless it is held to one of them.
inline constexpr std::array<int64_t, 3> kChunksPerStage = {1, 2, 4};
inline constexpr std::array<PipelineSchedule, 3> kSearchedSchedules = {
    PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved, PipelineSchedule::zero_bubble};

struct Constraints {
  int64_t devices = 8;
  std::optional<int64_t> dp, tp, pp, micro_batch, interleave;
  std::optional<int> zero;
  std::optional<Checkpointing> recompute;
  std::optional<bool> sequence_parallel;
  std::optional<PipelineSchedule> schedule;
  bool allow_tight = false;    // rank layouts that need more than kTight of the memory, too
  bool keep_rejected = false;  // lists them; otherwise they are only counted
  // With our own runtime so many of the best, and layouts tied with them, get exact memory.
  size_t shown = 12;
};

enum class Reject {
  heads,     // not divisible by tp
  width,     // hidden or feed-forward size not divisible by tp
  link,      // tp beyond the link domain
  stages,    // more stages than layers
  batch,     // global batch not divisible by dp x micro-batch
  ramp,      // a batch of the ramp-up not divisible by dp, or not into whole rounds
  schedule,  // interleaving does not divide layers or micro-batches
  kernels,   // more heads or sequences on a rank than our own kernels for GPUs take
  sharding,  // ZeRO stage that this layout or stack cannot use
  memory,    // does not fit
  tight,     // fits, but above kTight
};
constexpr size_t kRejects = 11;
std::string name_of(Reject reason);

struct Candidate {
  Layout layout;
  Estimate estimate;
  MemoryEstimate memory;
  double low = 0, high = 0;  // interval of the seconds
  double tokens_per_second = 0;
  double mfu = 0, hfu = 0;   // mpt convention, of the matrix peak
  bool simulated = false;    // the seconds are of a simulated schedule, not of the formula
  size_t tie = 0;            // candidates with the same number cannot be told apart
  double leader_memory = 0;  // bytes of the fastest candidate that differs only in recomputation
};

struct Plan {
  Cluster cluster;
  Stack stack;
  Workload work;
  Constraints constraints;
  std::vector<Candidate> ranked;  // best first
  std::array<size_t, kRejects> rejected{};
  std::vector<std::pair<Layout, Reject>> rejected_layouts;
  size_t considered = 0;
  double wall_seconds = 0;
  // If nothing fits: the layout that needs least beyond the memory, and what would make it fit.
  std::optional<Candidate> nearest;

  void refuse(const Layout& layout, Reject reason) {
    ++rejected[static_cast<size_t>(reason)];
    if (constraints.keep_rejected) rejected_layouts.emplace_back(layout, reason);
  }
};

// Throws Error for a model or a batch that no layout can run. Deterministic: the same inputs give
// the same ranking, bit by bit.
Plan make_plan(const Cluster& cluster, const Stack& stack, const Workload& work,
               const Constraints& constraints);

// All layouts that the rules allow, in the order of the search.
std::vector<Layout> enumerate_layouts(const Cluster& cluster, const Stack& stack,
                                      const Workload& work, const Constraints& constraints,
                                      Plan* counts);

// Whether batch, sequence, layers and the other sizes of the model can be divided in this way.
bool can_be_cut(const Cluster& cluster, const Stack& stack, const Workload& work,
                const Layout& layout);

// What the software can do with this work: our own runtime has less that is deterministic.
Abilities abilities_for(const Stack& stack, const Workload& work);

Candidate price(const Cluster& cluster, const Stack& stack, const Workload& work,
                const Layout& layout);

// Relative half width of the interval: the spread of the fit, plus what extrapolation to many
// devices adds until runs of our own narrow it.
double interval_of(const Stack& stack, int64_t devices);
// The same, at least 25 % where a product has an untold size.
double interval_of(const Cluster& cluster, const Stack& stack, const Workload& work,
                   int64_t devices);
// A size of the model that the matrix units do not take, such as a hidden size of 765, where no run
// of this software tells how fast its products are; 0: there is none.
int64_t untold_size(const Cluster& cluster, const Stack& stack, const Workload& work);

// Two layouts whose seconds differ by less than this, relatively, cannot be told apart.
double tie_width(const Stack& stack);

// These throw Error with the field and the fix.
void check_workload(const Workload& work);
void check_devices(const Constraints& constraints);
void check_abilities(const Stack& stack, const Workload& work, const Constraints& constraints);
void check_division(const Constraints& constraints);  // dp, tp and pp must divide the devices

}  // namespace stretto::plan
