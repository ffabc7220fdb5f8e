// From the way a model is run to what the ranks of each pipeline stage hold. The engine and the
// planner both use this, so that what is planned is what is allocated.
#pragma once

#include "account/memory.h"
#include "account/topology.h"
#include "parallel/schedule.h"

namespace stretto {

struct RunShape {
  RankShape rank;  // what every rank has in common, without what its topology and stage decide
  Topology topology;
  int64_t global_batch = 1;
  bool on_gpu = false;
  int64_t logits_chunk = 0;  // bytes; 0: what suits the device
};

// By chunk: the largest number of micro-batches whose activations are live at once on the ranks of
// a stage. It equals the peak of check_schedule, but does not build a schedule as long as the step.
std::vector<int64_t> in_flight(PipelineSchedule kind, int64_t pp, int64_t micro_batches,
                               int64_t chunks, int64_t stage);

// What all ranks have in common, whatever their stage.
RankShape any_rank(const RunShape& run);
// Everything but the working memory of CPU kernels, which only the backend knows.
RankShape stage_shape(const RunShape& run, int64_t stage);

}  // namespace stretto
