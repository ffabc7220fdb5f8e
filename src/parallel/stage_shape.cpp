#include "parallel/stage_shape.h"

#include <algorithm>

#include "account/stages.h"
#include "base/ceil_div.h"

namespace stretto {

std::vector<int64_t> in_flight(PipelineSchedule kind, int64_t pp, int64_t micro_batches,
                               int64_t chunks, int64_t stage) {
  if (kind == PipelineSchedule::gpipe) return {micro_batches};
  if (kind == PipelineSchedule::one_f_one_b) return {std::min(micro_batches, pp - stage)};
  // Longer schedules reach their peak well before this many micro-batches, in their steady state.
  const int64_t few = std::min(micro_batches, 4 * pp);
  const Schedule schedule =
      make_schedule(kind, static_cast<int>(pp), static_cast<int>(few), static_cast<int>(chunks));
  const std::vector<int> peak = check_schedule(schedule).peak[static_cast<size_t>(stage)];
  return {peak.begin(), peak.end()};
}

RankShape any_rank(const RunShape& run) {
  const Topology& t = run.topology;
  RankShape shape = run.rank;
  shape.tp = t.tp;
  shape.dp = t.sharing_ranks();
  shape.zero = t.zero;
  shape.sequence_parallel = t.sequence_parallel;
  return shape;
}

RankShape stage_shape(const RunShape& run, int64_t stage) {
  const Topology& t = run.topology;
  RankShape shape = any_rank(run);
  shape.accumulation = ceil_div(run.global_batch, t.dp * shape.micro_batch);
  if (run.on_gpu) shape.loss_chunk_bytes = kGpuLossChunkBytes;
  if (run.logits_chunk > 0) shape.loss_chunk_bytes = run.logits_chunk;
  shape.first_stage = stage == 0;
  shape.last_stage = stage + 1 == t.pp;
  shape.chunks = stage_chunks(t.partition.over(shape.model.layers, t.stages()), t.pp, stage);
  const PipelineSchedule kind = t.running_schedule();
  shape.split_backward = splits_backward(kind);
  shape.in_flight = in_flight(kind, t.pp, shape.accumulation, t.interleave, stage);
  return shape;
}

}  // namespace stretto
