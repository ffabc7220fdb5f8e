// What a rank on a GPU is predicted to need, against what one H200 held after four steps
// (tools/gpu-train-bench): the driver's own memory and all workspaces included.
#include <gtest/gtest.h>

#include "config/reader.h"
#include "train/rank_plan.h"

namespace stretto {
namespace {

double predicted_bytes(const std::vector<std::string>& words) {
  const Config config = load_config(words).config;
  const RankShape shape = rank_shape(config, {});
  return static_cast<double>(memory_totals(memory_plan(shape)).total +
                             device_overhead(config, shape));
}

TEST(DeviceMemory, PredictedWithinThreePercent) {
  struct Point {
    const char *model, *precision;
    int seq_len, micro_batch;
    double measured;  // bytes
  };
  const Point points[] = {{"mpt-125m", "amp_bf16", 1024, 64, 26'246'709'248.0},
                          {"mpt-125m", "amp_bf16", 2048, 64, 51'938'918'400.0},
                          {"mpt-1b", "amp_bf16", 2048, 16, 80'785'244'160.0},
                          {"mpt-3b", "amp_bf16", 2048, 8, 94'716'624'896.0},
                          {"mpt-7b", "bf16", 2048, 6, 109'145'030'656.0}};
  for (const Point& p : points) {
    const double predicted =
        predicted_bytes({p.model, fmt::format("seq_len={}", p.seq_len),
                         fmt::format("micro_batch={}", p.micro_batch),
                         fmt::format("global_batch={}", p.micro_batch),
                         fmt::format("precision={}", p.precision), "device=cuda"});
    EXPECT_NEAR(predicted / p.measured, 1.0, 0.03) << p.model << " T " << p.seq_len;
  }
}

TEST(DeviceMemory, TheCpuNeedsNothingBesideThePlan) {
  const Config config = load_config({"mpt-125m", "micro_batch=2", "device=cpu"}).config;
  EXPECT_EQ(device_overhead(config, rank_shape(config, {})), 0u);
}

TEST(DeviceMemory, EightBitCopiesAreCounted) {
  const auto bytes = [](const char* precision) {
    return predicted_bytes({"mpt-3b", "seq_len=2048", "micro_batch=8", "global_batch=8",
                            fmt::format("precision={}", precision), "device=cuda"});
  };
  // The largest output gradient, (tokens, 4 C), as it is and transposed.
  EXPECT_GE(bytes("amp_fp8") - bytes("amp_bf16"), 2.0 * 8 * 2048 * 4 * 2560);
}

}  // namespace
}  // namespace stretto
