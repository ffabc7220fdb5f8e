// Seconds per iteration of one layout: layers, head, pipeline, collectives, optimizer.
#pragma once

#include <vector>

#include "plan/kernels.h"

namespace stretto::plan {

// Where the seconds of one iteration go. The parts add up to `seconds`.
struct Estimate {
  double seconds = 0;
  double gemm = 0;  // dense products on the slowest stage
  double attention = 0;
  double passes = 0;  // memory-bound work, gradient accumulation included
  double launches = 0;
  double head = 0;  // output head and loss, on the slowest stage
  double tp_exposed = 0;
  double pp_exposed = 0;
  double dp_exposed = 0;  // gradient reduction, parameter gathers
  double bubble = 0;      // fill and drain
  double imbalance = 0;   // slowest stage over the mean stage
  double optimizer = 0;
  // Offloading: copies to and from the host, as far as compute does not hide them.
  double host_link = 0;
  // Ranks that share cores: waiting for the others' work, as far as idle time does not hide it.
  double core_wait = 0;
  double fixed = 0;
  double hidden_comm = 0;             // overlapped with compute; not part of the sum
  double forward_share = 1.0 / 3;     // of a stage's time
  std::vector<double> stage_seconds;  // one micro-batch, forward and backward, per pipeline rank
};

// The parts with names for people, always in the same order.
struct Term {
  const char* name;
  double seconds;
};
std::vector<Term> terms_of(const Estimate& estimate);

// Seconds of a pipeline by formula: the slowest stage once per micro-batch, every other stage once
// (divided by v chunks). Exact for 1F1B and GPipe if transfers are part of their stages and the
// last stage is the slowest; otherwise an upper bound.
double pipeline_closed_form(const std::vector<double>& stage_seconds, double micro_batches,
                            double interleave);

// The same by event simulation of the schedule that the engine runs. Long steps are cut to the
// number of micro-batches at which the pipeline has reached its steady state.
double pipeline_simulated(const Estimate& estimate, const Workload& work, const Layout& layout);

// Replaces the closed form's bubble by the simulated one.
void refine_by_simulation(Estimate& estimate, const Workload& work, const Layout& layout);
// Likewise, unless the closed form is exact enough to rank layouts by it (1F1B).
void refine_to_rank(Estimate& estimate, const Workload& work, const Layout& layout);

// How much longer, relatively, a synchronous step takes because it waits for the slowest of
// `nodes`.
double straggler_wait(double spread, int64_t nodes);

Estimate estimate(const Cluster& cluster, const Stack& stack, const Workload& work,
                  const Layout& layout);

}  // namespace stretto::plan
