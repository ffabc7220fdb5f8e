// From the way a model is run to what the ranks of each pipeline stage hold. The engine and the
// planner both use this, so that what is planned is what is allocated.
#pragma once

#include "account/memory.h"
#include "parallel/schedule.h"

namespace stretto {

struct RunShape {
  RankShape rank;  // what every rank has in common; what depends on its stage is set by stage_shape
  int64_t global_batch = 1;
  int64_t dp = 1;
  int64_t zero_group = 0;  // ranks that share states; 0: all of dp
  int64_t pp = 1;
  int64_t interleave = 1;                                     // model chunks per pipeline rank
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;  // as asked for
  std::vector<int64_t> partition;                             // layers per virtual stage
  bool on_gpu = false;
  int64_t logits_chunk = 0;  // bytes; 0: what suits the device
};

// The schedule that really runs. More than one chunk per rank means the interleaved one. On a
// single stage the order of tasks makes no difference, so micro-batches are taken in turn.
PipelineSchedule effective_schedule(PipelineSchedule asked, int64_t pp, int64_t interleave);

// By chunk: the largest number of micro-batches whose activations are live at once on the ranks of
// a stage. It equals the peak of check_schedule, but does not build a schedule as long as the step.
std::vector<int64_t> in_flight(PipelineSchedule kind, int64_t pp, int64_t micro_batches,
                               int64_t chunks, int64_t stage);

// Everything but the working memory of CPU kernels, which only the backend knows.
RankShape stage_shape(const RunShape& run, int64_t stage);

}  // namespace stretto
