// What an evaluation plans it uses: its memory holds nothing that only a backward pass would.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/gpt.h"
#include "train/rank_backend.h"
#include "train/rank_plan.h"
#include "train/training.h"

namespace stretto {
namespace {

TEST(EvaluationPlan, HoldsWhatAForwardPassWrites) {
  for (const Checkpointing mode :
       {Checkpointing::none, Checkpointing::gelu, Checkpointing::selective, Checkpointing::full}) {
    Config config = tiny_config();
    config.device = Device::cpu;
    config.activation_checkpointing = mode;
    const auto self = make_self_comm();
    const auto backend = make_rank_backend(config, *self);
    RankShape shape = rank_shape(config, {});
    shape.train = false;
    Gpt gpt(*backend, shape, {self.get(), self.get(), self.get(), nullptr});
    auto* weights = static_cast<float*>(gpt.memory().at("weights").data());
    for (int64_t i = 0; i < gpt.layout().total; ++i) {
      weights[i] = 0.01f * static_cast<float>(i % 7 - 3);
    }
    const MicroBatch mb{0, 0, config.micro_batch};
    std::vector<int32_t> tokens(static_cast<size_t>(config.micro_batch * config.seq_len), 5);
    gpt.set_batch(0, mb, tokens.data(), tokens.data());
    gpt.forward(0, mb, false);
    for (const TensorSpec& spec : memory_plan(shape)) {
      if (spec.label == "loss.scale") continue;  // one number, which the head always looks up
      const Tensor tensor = gpt.memory().at(spec.label);
      const auto* bytes = static_cast<const unsigned char*>(tensor.data());
      const size_t size = static_cast<size_t>(tensor.count()) * dtype_size(tensor.dtype());
      const bool written = std::any_of(bytes, bytes + size, [](unsigned char b) { return b != 0; });
      EXPECT_TRUE(written) << name_of(mode) << ": " << spec.label;
    }
  }
}

}  // namespace
}  // namespace stretto
