#include "model/initialise.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// All values of a parameter, padding included.
std::vector<float> values_of(const ParameterSpec& spec, int64_t vocab) {
  std::vector<float> values(static_cast<size_t>(spec.count()),
                            spec.init == Init::ones ? 1.0f : 0.0f);
  if (spec.init != Init::normal) return values;
  const int64_t real = spec.name == "wte" ? vocab * spec.columns : spec.count();
  CounterRng(kSeed, stream_of(spec.name))
      .fill_normal(values.data(), 0, static_cast<size_t>(real), static_cast<float>(spec.init_std));
  return values;
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
                   const auto at = flat.begin() + begin;
                   ASSERT_EQ(std::count(at, at + count, kNever), count)
                       << "some from " << begin << " are visited twice";
                   std::copy_n(values, count, at);
                 });
  for (const FlatUnit& unit : layout.units) {
    for (const FlatParameter& p : unit.parameters) {
      parameters += p.count > 0 ? 1 : 0;
      const std::vector<float> expected = values_of(p.spec, model.vocab);
      int64_t at = p.offset;
      for (const auto& run : shard_runs(p.spec, tp, rank)) {
        const auto got = flat.cbegin() + at, begin = expected.cbegin() + run.global_begin;
        ASSERT_TRUE(std::equal(got, got + run.count, begin))
            << p.spec.name << " " << run.global_begin;
        at += run.count;
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
