// Pipeline schedules: one representation that the trainer executes, the planner simulates and a
// trace draws.
//
// A pipeline of p ranks with v model chunks each has p * v virtual stages: chunk c of rank r is
// stage c * p + r. Each rank executes its list of tasks strictly in order. What must be received
// before a task and sent after it follows from the task (input_of, output_of below), so a schedule
// holds no transfers.
//
// For the trainer:
//     const Schedule schedule = make_schedule(kind, p, m, v);
//     for (const Task& task : schedule.ranks[pp.rank()]) {
//       const Transfer in = input_of(schedule, pp.rank(), task);
//       if (in.peer >= 0) pp.recv(activations_or_gradient, in.peer, in.tag);
//       ... compute ...
//       const Transfer out = output_of(schedule, pp.rank(), task);
//       if (out.peer >= 0) sends.push_back(pp.start_send(result, out.peer, out.tag));
//     }
// Blocking receives with started sends never deadlock (check_schedule proves it for the schedule at
// hand; the tests for all p, m, v). A rank may send to itself (p = 1, v > 1). Activations of
// (chunk, micro-batch) live from its forward to the end of its backward (backward_weight where the
// backward is split), and micro-batch i can use slot i % check.peak[rank][chunk].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "account/run_shape.h"

namespace stretto {

enum class TaskKind : uint8_t {
  forward,
  backward,         // both gradients
  backward_input,   // gradient of the input only: what the stage before waits for
  backward_weight,  // gradient of the weights: nobody waits for it
};
const char* name_of(TaskKind kind);

struct Task {
  TaskKind kind = TaskKind::forward;
  int32_t micro_batch = 0;
  int32_t chunk = 0;
  bool operator==(const Task&) const = default;
};

struct Schedule {
  PipelineSchedule kind = PipelineSchedule::one_f_one_b;
  int stages = 1;         // p, pipeline ranks
  int micro_batches = 1;  // m
  int chunks = 1;         // v, per rank
  bool split_backward = false;
  std::vector<std::vector<Task>> ranks;

  int virtual_stages() const { return stages * chunks; }
  int virtual_stage(int rank, int chunk) const { return chunk * stages + rank; }
};

// All but interleaved have v = 1. Any p, m, v >= 1, also m < p.
Schedule make_schedule(PipelineSchedule kind, int p, int m, int v = 1);
// The same tasks in another order: each micro-batch goes through all stages and back before the
// next one begins. Slow, but no message is in flight while a rank computes.
Schedule one_by_one(Schedule schedule);

// A message that a task needs from, or sends to, another virtual stage. peer -1: none.
struct Transfer {
  int peer = -1;  // pipeline rank
  int tag = 0;
};
Transfer input_of(const Schedule& schedule, int rank, const Task& task);
Transfer output_of(const Schedule& schedule, int rank, const Task& task);

struct ScheduleCheck {
  std::string problem;  // empty: valid
  // By rank and chunk: the largest number of micro-batches whose activations are live at once.
  std::vector<std::vector<int>> peak;
};
// Checks that every task appears exactly once and after its dependencies, and that nothing
// deadlocks when ranks execute their lists in order with blocking receives and asynchronous sends.
ScheduleCheck check_schedule(const Schedule& schedule);

// For each task of `rank` but the last: whether the next task's input arrives even if this task
// never ends. Only then may its receive be started before this task. Otherwise nothing would be
// gained, and a GPU could deadlock: a receive that is queued first may block the whole GPU, and
// with it this task, on which the input depends.
std::vector<bool> next_input_comes(const Schedule& schedule, int rank);

}  // namespace stretto
