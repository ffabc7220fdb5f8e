// Pipelines by event simulation, with the schedules that the engine runs.
#include <algorithm>

#include "parallel/simulate.h"
#include "plan/cost.h"

namespace stretto::plan {
namespace {

// Times by virtual stage. A rank's chunks share its time, except what embedding and head add: that
// stays on the first and the last virtual stage.
std::vector<StageTimes> stage_times(const Estimate& e, const Layout& layout) {
  const size_t p = static_cast<size_t>(layout.pp), v = static_cast<size_t>(layout.interleave);
  std::vector<StageTimes> times(p * v);
  const double middle = e.stage_seconds[p / 2];
  for (size_t i = 0; i < p * v; ++i) {
    double seconds = v == 1 ? e.stage_seconds[i] : middle / static_cast<double>(v);
    if (v > 1 && i == 0) seconds += std::max(0.0, e.stage_seconds.front() - middle);
    if (v > 1 && i + 1 == p * v) seconds += std::max(0.0, e.stage_seconds.back() - middle);
    times[i].forward = seconds * e.forward_share;
    const double backward = seconds - times[i].forward;
    const bool split = splits_backward(layout.schedule);
    times[i].backward_weight = split ? backward / 2 : 0;
    times[i].backward = backward - times[i].backward_weight;
  }
  return times;
}

}  // namespace

double pipeline_simulated(const Estimate& e, const Workload& work, const Layout& layout) {
  const int64_t m = micro_batches(work, layout);
  // Interleaved schedules need whole rounds of p micro-batches.
  const int64_t rounds = m % layout.pp == 0 ? std::min(m / layout.pp, int64_t{4}) : 0;
  const int64_t simulated = rounds > 0 ? rounds * layout.pp : std::min(m, 4 * layout.pp);
  const Schedule schedule =
      make_schedule(layout.schedule, static_cast<int>(layout.pp), static_cast<int>(simulated),
                    static_cast<int>(layout.interleave));
  const Timeline timeline = simulate(schedule, stage_times(e, layout));
  const double slowest = *std::max_element(e.stage_seconds.begin(), e.stage_seconds.end());
  return timeline.makespan + static_cast<double>(m - simulated) * slowest;
}

void refine_by_simulation(Estimate& e, const Workload& work, const Layout& layout) {
  if (layout.pp == 1) return;
  const double m = static_cast<double>(micro_batches(work, layout));
  const double slowest = *std::max_element(e.stage_seconds.begin(), e.stage_seconds.end());
  const double bubble = pipeline_simulated(e, work, layout) - m * slowest;
  e.seconds += bubble - e.bubble;
  e.bubble = bubble;
}

void refine_to_rank(Estimate& e, const Workload& work, const Layout& layout) {
  if (layout.schedule != PipelineSchedule::one_f_one_b) refine_by_simulation(e, work, layout);
}

}  // namespace stretto::plan
