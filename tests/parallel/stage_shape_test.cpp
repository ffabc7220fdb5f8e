// What a stage holds, from the way a model is run.
#include "parallel/stage_shape.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

RunShape run_of_four() {
  RunShape run;
  run.rank.model.layers = 4;
  run.rank.micro_batch = 2;
  run.global_batch = 48;
  run.topology.dp = 4;
  return run;
}

// Ranks that share their states are fewer than those that share the batch.
TEST(StageShape, AShardingGroupChangesWhatIsSharedNotHowManyMicroBatchesThereAre) {
  RunShape run = run_of_four();
  run.topology.pp = 2;
  run.topology.schedule = PipelineSchedule::gpipe;
  for (const int64_t group : {0, 1, 2, 4}) {
    run.topology.zero_group = group;
    for (int64_t stage = 0; stage < 2; ++stage) {
      const RankShape shape = stage_shape(run, stage);
      EXPECT_EQ(shape.dp, group == 0 ? 4 : group);
      EXPECT_EQ(shape.accumulation, 6) << group;
      EXPECT_EQ(shape.in_flight, std::vector<int64_t>{6}) << group;
    }
  }
}

TEST(StageShape, TheLastMicroBatchMayBeShort) {
  RunShape run = run_of_four();
  run.global_batch = 52;
  EXPECT_EQ(stage_shape(run, 0).accumulation, 7);
}

TEST(StageShape, ChunksOfLogitsAreAsLargeAsAskedForOrAsSuitsTheDevice) {
  RunShape run = run_of_four();
  const int64_t usual = stage_shape(run, 0).loss_chunk_bytes;
  run.on_gpu = true;
  EXPECT_GT(stage_shape(run, 0).loss_chunk_bytes, usual);
  for (const bool on_gpu : {false, true}) {
    run.on_gpu = on_gpu;
    run.logits_chunk = 12345;
    EXPECT_EQ(stage_shape(run, 0).loss_chunk_bytes, 12345);
  }
}

}  // namespace
}  // namespace stretto
