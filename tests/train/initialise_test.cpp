#include "model/initialise.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace stretto {
namespace {

constexpr uint64_t kSeed = 5;

// A token table that is handed over in several stretches.
ModelShape model_with_large_table() {
  ModelShape model;
  model.layers = 1;
  model.hidden = 256;
  model.heads = 4;
  model.vocab = 33001;
  model.positions = 17;
  return model;
}

float value_at(const ParameterSpec& spec, int64_t vocab, int64_t index) {
  if (spec.name == "wte" && index >= vocab * spec.columns) return 0;  // padding
  if (spec.init != Init::normal) return spec.init == Init::ones ? 1.0f : 0.0f;
  float value = 0;
  CounterRng(kSeed, stream_of(spec.name))
      .fill_normal(&value, static_cast<uint64_t>(index), 1, static_cast<float>(spec.init_std));
  return value;
}

void check(int64_t tp, int64_t rank) {
  const ModelShape model = model_with_large_table();
  const FlatLayout layout = flat_layout(model, {.layers = {0}}, tp, 1);
  constexpr float kNever = -7;
  std::vector<float> flat(static_cast<size_t>(layout.total), kNever);
  size_t visits = 0, parameters = 0;
  initial_values(layout, model.vocab, tp, rank, kSeed,
                 [&](size_t, int64_t begin, const float* values, int64_t count) {
                   ++visits;
                   for (int64_t i = 0; i < count; ++i) {
                     float& at = flat[static_cast<size_t>(begin + i)];
                     ASSERT_EQ(at, kNever) << begin + i << " is visited twice";
                     at = values[i];
                   }
                 });
  for (const FlatUnit& unit : layout.units) {
    for (const FlatParameter& p : unit.parameters) {
      parameters += p.count > 0 ? 1 : 0;
      int64_t at = p.offset;
      for (const auto& run : shard_runs(p.spec, tp, rank)) {
        for (int64_t index = run.global_begin; index < run.global_begin + run.count; ++index) {
          ASSERT_EQ(flat[static_cast<size_t>(at++)], value_at(p.spec, model.vocab, index))
              << p.spec.name << " " << index;
        }
      }
      EXPECT_EQ(at, p.offset + p.count);
    }
  }
  EXPECT_GT(visits, parameters) << "the table was meant to take several";
}

TEST(InitialValues, StretchesOfWholeAndShardsAreSlicesOfOneDraw) {
  check(1, 0);
  check(2, 0);
  check(2, 1);
}

}  // namespace
}  // namespace stretto
