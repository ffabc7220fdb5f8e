#include "parallel/simulate.h"

#include <algorithm>

#include "base/error.h"

namespace stretto {
namespace {

constexpr double kNotYet = -1;

double duration(const Schedule& schedule, const StageTimes& times, TaskKind kind) {
  switch (kind) {
    case TaskKind::forward:
      return times.forward;
    case TaskKind::backward:
      return times.backward + times.backward_weight;
    case TaskKind::backward_input:
      return times.backward;
    case TaskKind::backward_weight:
      return times.backward_weight;
  }
  STRETTO_CHECK(false, "task of {} stages", schedule.stages);
}

}  // namespace

const Timeline& Simulator::run(const Schedule& s, std::span<const StageTimes> times,
                               const SimulateOptions& options) {
  const auto p = static_cast<size_t>(s.stages);
  const auto m = static_cast<size_t>(s.micro_batches);
  const auto stages = static_cast<size_t>(s.virtual_stages());
  STRETTO_CHECK(times.size() == stages, "{} times for {} stages", times.size(), stages);
  timeline_.first_task.assign(1, 0);
  for (const auto& tasks : s.ranks) {
    timeline_.first_task.push_back(timeline_.first_task.back() + tasks.size());
  }
  timeline_.tasks.resize(timeline_.first_task.back());
  timeline_.busy.assign(p, 0);
  // Two kinds of input are there from the start: that of a forward on stage 0, and that of a
  // backward on the last stage, which the order of the list puts after its own forward.
  arrival_.assign(2 * stages * m, kNotYet);
  std::fill_n(arrival_.begin(), m, 0.0);
  std::fill_n(arrival_.end() - static_cast<std::ptrdiff_t>(m), m, 0.0);
  next_.assign(p, 0);
  clock_.assign(p, 0);
  ready_.clear();
  for (size_t r = p; r-- > 0;) ready_.push_back(static_cast<int>(r));

  size_t finished = 0;
  while (!ready_.empty()) {
    const int rank = ready_.back();
    const auto r = static_cast<size_t>(rank);
    ready_.pop_back();
    const std::vector<Task>& tasks = s.ranks[r];
    for (; next_[r] < tasks.size(); ++next_[r], ++finished) {
      const Task& task = tasks[next_[r]];
      const auto stage = static_cast<size_t>(s.virtual_stage(rank, task.chunk));
      const auto mb = static_cast<size_t>(task.micro_batch);
      const bool forward = task.kind == TaskKind::forward;
      const bool weight = task.kind == TaskKind::backward_weight;
      const double input = weight ? 0.0 : arrival_[(forward ? 0 : stages * m) + stage * m + mb];
      if (input == kNotYet) break;  // its sender puts this rank back on the list
      const double scale = options.micro_batch_scale.empty() ? 1.0 : options.micro_batch_scale[mb];
      const double start = std::max(clock_[r], input);
      const double length = duration(s, times[stage], task.kind) * scale;
      const double end = start + length;
      timeline_.tasks[timeline_.first_task[r] + next_[r]] = {start, end};
      timeline_.busy[r] += length;
      clock_[r] = end;
      const bool last = forward ? stage + 1 == stages : stage == 0;
      if (weight || last) continue;
      const double send =
          (forward ? times[stage].send_forward : times[stage].send_backward) * scale;
      const size_t to = forward ? stage + 1 : stage - 1;
      arrival_[(forward ? 0 : stages * m) + to * m + mb] = end + send;
      if (!options.asynchronous) clock_[r] = end + send;
      if (to % p != r) ready_.push_back(static_cast<int>(to % p));
    }
  }
  STRETTO_CHECK(finished == timeline_.tasks.size(),
                "the schedule stands still after {} of {} tasks", finished, timeline_.tasks.size());
  double busy = 0;
  for (const double seconds : timeline_.busy) busy += seconds;
  timeline_.makespan = *std::max_element(clock_.begin(), clock_.end());
  timeline_.bubble =
      timeline_.makespan > 0 ? 1.0 - busy / (timeline_.makespan * static_cast<double>(p)) : 0.0;
  return timeline_;
}

Timeline simulate(const Schedule& schedule, std::span<const StageTimes> times,
                  const SimulateOptions& options) {
  Simulator simulator;
  return simulator.run(schedule, times, options);
}

}  // namespace stretto
