#include "parallel/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/ceil_div.h"
#include "base/error.h"

namespace stretto {
namespace {

using Tasks = std::vector<Task>;

Tasks gpipe(int m) {
  Tasks tasks;
  for (int i = 0; i < m; ++i) tasks.push_back({TaskKind::forward, i, 0});
  for (int i = 0; i < m; ++i) tasks.push_back({TaskKind::backward, i, 0});
  return tasks;
}

// `warmup` forwards, then one forward and one backward in turn, then the remaining backwards. The
// arguments give the order of each kind.
Tasks one_each(const Tasks& forwards, const Tasks& backwards, size_t warmup) {
  Tasks tasks(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warmup));
  for (size_t i = warmup; i < forwards.size(); ++i) {
    tasks.push_back(forwards[i]);
    tasks.push_back(backwards[i - warmup]);
  }
  tasks.insert(tasks.end(), backwards.end() - static_cast<std::ptrdiff_t>(warmup), backwards.end());
  return tasks;
}

// `ahead`: how many forwards, for each rank behind it, a rank has done before its first backward.
// With 1 (1F1B) a forward arrives just when it is needed, so a message or a stage that is a moment
// late holds up everyone. With 2 (eager 1F1B) there is always another forward to work on meanwhile.
Tasks one_f_one_b(int rank, int p, int m, int ahead = 1) {
  Tasks forwards;
  Tasks backwards;
  for (int i = 0; i < m; ++i) {
    forwards.push_back({TaskKind::forward, i, 0});
    backwards.push_back({TaskKind::backward, i, 0});
  }
  return one_each(forwards, backwards, static_cast<size_t>(std::min(m, ahead * (p - 1 - rank))));
}

// 1F1B with a split backward. Nobody waits for weight gradients, so they fill the time in which
// 1F1B is idle at the end. Rank r postpones r of them; with that every rank holds as many
// activations as the first rank of 1F1B, and no more.
Tasks zero_bubble(int rank, int p, int m) {
  Tasks tasks;
  int weights = 0;
  int inputs = 0;
  for (const Task& task : one_f_one_b(rank, p, m)) {
    if (task.kind == TaskKind::forward) {
      tasks.push_back(task);
      continue;
    }
    tasks.push_back({TaskKind::backward_input, task.micro_batch, 0});
    if (++inputs > rank) tasks.push_back({TaskKind::backward_weight, weights++, 0});
  }
  while (weights < m) tasks.push_back({TaskKind::backward_weight, weights++, 0});
  return tasks;
}

// Micro-batches go through chunk 0, then chunk 1, ... in groups of p: a rank can work on the next
// chunk of a group as soon as the last rank has passed on the first output of the chunk before. An
// incomplete last group is planned as if it were complete, then the micro-batches that do not exist
// are left out; the order of the others stays legal.
Tasks interleaved(int rank, int p, int m, int v) {
  const int whole = round_up(m, p);
  Tasks forwards;
  Tasks backwards;
  for (int begin = 0; begin < whole; begin += p) {
    for (int chunk = 0; chunk < v; ++chunk) {
      for (int i = begin; i < begin + p; ++i) {
        forwards.push_back({TaskKind::forward, i, chunk});
        backwards.push_back({TaskKind::backward, i, v - 1 - chunk});
      }
    }
  }
  // Before its first backward a rank does v - 1 chunks of the first group, and as many forwards as
  // fit into the way to the last rank and back.
  const int warmup = std::min(2 * (p - 1 - rank) + (v - 1) * p, whole * v);
  Tasks tasks = one_each(forwards, backwards, static_cast<size_t>(warmup));
  std::erase_if(tasks, [&](const Task& task) { return task.micro_batch >= m; });
  return tasks;
}

}  // namespace

const char* name_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::forward:
      return "forward";
    case TaskKind::backward:
      return "backward";
    case TaskKind::backward_input:
      return "backward_input";
    case TaskKind::backward_weight:
      return "backward_weight";
  }
  return "unknown";
}

Schedule make_schedule(PipelineSchedule kind, int p, int m, int v) {
  STRETTO_CHECK(p >= 1 && m >= 1 && v >= 1, "p {}, m {}, v {}", p, m, v);
  STRETTO_CHECK(v == 1 || kind == PipelineSchedule::interleaved, "only interleaved has v {}", v);
  Schedule schedule{kind, p, m, v, splits_backward(kind), {}};
  const auto tasks_of = [&](int rank) {
    if (kind == PipelineSchedule::gpipe) return gpipe(m);
    if (kind == PipelineSchedule::interleaved) return interleaved(rank, p, m, v);
    if (kind == PipelineSchedule::zero_bubble) return zero_bubble(rank, p, m);
    return one_f_one_b(rank, p, m, kind == PipelineSchedule::eager_one_f_one_b ? 2 : 1);
  };
  for (int r = 0; r < p; ++r) schedule.ranks.push_back(tasks_of(r));
  return schedule;
}

Schedule one_by_one(Schedule schedule) {
  const auto place = [](const Task& t) {
    const bool forward = t.kind == TaskKind::forward;
    return std::tuple(t.micro_batch, !forward, forward ? t.chunk : -t.chunk, t.kind);
  };
  for (std::vector<Task>& tasks : schedule.ranks) {
    std::sort(tasks.begin(), tasks.end(),
              [&](const Task& a, const Task& b) { return place(a) < place(b); });
  }
  return schedule;
}

namespace {

// Equal for both ends of a transfer. MPI promises tags up to 32767 only, so tags repeat, but two
// messages that far apart are never in flight at once.
int tag_of(const Schedule& schedule, bool forward, int micro_batch, int to_stage) {
  constexpr int kWindow = 8192;
  const int number = micro_batch * schedule.chunks + to_stage / schedule.stages;
  return 2 * (number % kWindow) + (forward ? 0 : 1);
}

}  // namespace

Transfer input_of(const Schedule& schedule, int rank, const Task& task) {
  const int stage = schedule.virtual_stage(rank, task.chunk);
  const bool forward = task.kind == TaskKind::forward;
  const int from = forward ? stage - 1 : stage + 1;
  if (task.kind == TaskKind::backward_weight || from < 0 || from == schedule.virtual_stages()) {
    return {};
  }
  return {from % schedule.stages, tag_of(schedule, forward, task.micro_batch, stage)};
}

Transfer output_of(const Schedule& schedule, int rank, const Task& task) {
  const int stage = schedule.virtual_stage(rank, task.chunk);
  const bool forward = task.kind == TaskKind::forward;
  const int to = forward ? stage + 1 : stage - 1;
  if (task.kind == TaskKind::backward_weight || to < 0 || to == schedule.virtual_stages()) {
    return {};
  }
  return {to % schedule.stages, tag_of(schedule, forward, task.micro_batch, to)};
}

}  // namespace stretto
