// The scatter that a table's own twins show.
#include "plan/twins.h"

#include <gtest/gtest.h>

#include "plan_support.h"

namespace stretto::plan {
namespace {

Observation row(int64_t seq_len, int64_t micro_batches, double seconds) {
  Observation o;
  o.work = {shape(12, 768, 12, 50257), seq_len, 8 * 4 * micro_batches, Precision::amp_bf16};
  o.layout.dp = 8;
  o.layout.micro_batch = 4;
  o.layout.zero = 3;
  o.seconds = seconds;
  return o;
}

// 20 ms per iteration, and 0.1 or 0.3 s per micro-batch.
std::vector<Observation> rows_on_lines() {
  std::vector<Observation> rows;
  for (int64_t m : {1, 2, 4, 8}) {
    rows.push_back(row(512, m, 0.02 + 0.1 * static_cast<double>(m)));
    rows.push_back(row(2048, m, 0.02 + 0.3 * static_cast<double>(m)));
  }
  return rows;
}

TEST(Twins, RowsOnTheirLinesLeaveNothing) {
  const TwinFloor f = twin_floor(rows_on_lines(), 0.03);
  EXPECT_EQ(f.rows, 8u);
  EXPECT_NEAR(f.p90, 0, 1e-9);
  EXPECT_EQ(f.beyond, 0u);
}

TEST(Twins, OneSlowRowIsFoundAndTheOthersKeepTheirLine) {
  std::vector<Observation> rows = rows_on_lines();
  rows[3].seconds *= 1.2;  // 2048 tokens, two micro-batches
  const TwinFloor f = twin_floor(rows, 0.03);
  EXPECT_EQ(f.beyond, 1u);
  EXPECT_NEAR(f.median, 0, 1e-9);
}

// An iteration costs the same once for both lengths, so no line of its own excuses a slow short
// run.
TEST(Twins, TheCostPerIterationIsShared) {
  std::vector<Observation> rows = {row(512, 1, 0.15), row(512, 2, 0.22)};
  for (int64_t m : {1, 2, 4, 8}) rows.push_back(row(2048, m, 0.02 + 0.3 * static_cast<double>(m)));
  EXPECT_EQ(twin_floor(rows, 0.03).beyond, 1u);
}

TEST(Twins, RowsWithoutTwinsSayNothing) {
  EXPECT_EQ(twin_floor({row(512, 1, 0.1), row(2048, 1, 0.3)}, 0.03).rows, 0u);
  EXPECT_EQ(twin_floor({row(512, 1, 0.1), row(512, 2, 0.2)}, 0.03).rows, 0u);
  const TwinFloor repeats = twin_floor({row(512, 1, 0.10), row(512, 1, 0.11)}, 0.03);
  EXPECT_EQ(repeats.rows, 2u);
  EXPECT_GT(repeats.p90, 5);
}

}  // namespace
}  // namespace stretto::plan
