// From how a model is run to what the ranks of each pipeline stage hold. The engine and the planner
// both ask here, so that what is planned is what is allocated.
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

// What really runs: more than one chunk per rank means the interleaved schedule; a single stage
// takes micro-batches in turn, because no other order could save it any waiting.
PipelineSchedule effective_schedule(PipelineSchedule asked, int64_t pp, int64_t interleave);

// Most micro-batches whose activations live at once on the ranks of a stage, per chunk: the peak of
// check_schedule, without a schedule as long as the step.
std::vector<int64_t> in_flight(PipelineSchedule kind, int64_t pp, int64_t micro_batches,
                               int64_t chunks, int64_t stage);

// All but the working memory of a CPU's kernels, which is the backend's to know.
RankShape stage_shape(const RunShape& run, int64_t stage);

}  // namespace stretto
