// How long a schedule takes if the length of each task is known: an event simulation in which every
// rank executes its list in order, and a task starts when its input has arrived. The planner calls
// it often, so it is linear in the number of tasks, uses arrays only, and a Simulator reuses its
// memory between calls.
//
// With free transfers and the same ratio of backward to forward on all stages, GPipe takes exactly
// sum + (m - 1) * max, over the stages' times per micro-batch. 1F1B takes the same if the last
// stage is the slowest (or all are equal), and less otherwise.
#pragma once

#include <span>
#include <vector>

#include "parallel/schedule.h"

namespace stretto {

// Seconds per micro-batch of a virtual stage. With a split backward, `backward` is the input
// gradient and `backward_weight` the rest; otherwise a backward takes the sum of both.
struct StageTimes {
  double forward = 0;
  double backward = 0;
  double backward_weight = 0;
  double send_forward = 0;   // of this stage's output to the next stage
  double send_backward = 0;  // of its input gradient to the previous stage
};

struct SimulateOptions {
  bool asynchronous = true;  // false: the sender is blocked while it sends
  // Relative length of each micro-batch (ragged batches); empty: all 1.
  std::span<const double> micro_batch_scale = {};
};

struct TaskTime {
  double start = 0;
  double end = 0;
};

struct Timeline {
  std::vector<TaskTime> tasks;     // all ranks, one after the other, in list order
  std::vector<size_t> first_task;  // by rank, and one past the last
  std::vector<double> busy;        // seconds computed, by rank
  double makespan = 0;
  double bubble = 0;  // share of rank-seconds without compute
};

class Simulator {
 public:
  // `times`: one per virtual stage. The schedule must be valid. The result is valid until the next
  // call.
  const Timeline& run(const Schedule& schedule, std::span<const StageTimes> times,
                      const SimulateOptions& options = {});

 private:
  Timeline timeline_;
  std::vector<double> arrival_;  // by (virtual stage, micro-batch), forwards then backwards
  std::vector<size_t> next_;
  std::vector<double> clock_;
  std::vector<int> ready_;
};

Timeline simulate(const Schedule& schedule, std::span<const StageTimes> times,
                  const SimulateOptions& options = {});

}  // namespace stretto
