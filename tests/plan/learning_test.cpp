// What a calibration takes from each row, and how sure it is of what it found.
#include <gtest/gtest.h>

#include <cmath>

#include "plan/calibrate.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

// Rows that the stack's constants explain, but for `gemm`.
std::vector<Observation> made_rows(const Place& p) {
  Constants truth = p.stack.constants;
  truth.set(Constant::gemm, 0.6);
  std::vector<Observation> rows;
  for (int64_t layers : {24, 48}) {
    for (int64_t mbs : {1, 2, 4}) {
      for (int64_t gpus : {8, 16}) {
        Observation o;
        o.id = o.same_as = "row" + std::to_string(rows.size());
        o.work = {shape(layers, 4096, 32, 50368), 2048, 512, Precision::amp_bf16};
        o.layout.dp = gpus;
        o.layout.micro_batch = mbs;
        o.layout.zero = 3;
        o.layout.recompute = layers == 48 ? Checkpointing::full : Checkpointing::none;
        o.seconds = predicted_seconds(p.cluster, p.stack, truth, o);
        o.memory = 1.1 * predicted_memory(p.cluster, p.stack, truth, o);
        rows.push_back(o);
      }
    }
  }
  return rows;
}

void expect_same(const Calibration& a, const Calibration& b) {
  for (size_t i = 0; i < kConstants; ++i) {
    const auto id = static_cast<Constant>(i);
    EXPECT_EQ(a.constants[id], b.constants[id]) << info(id).key;
  }
  ASSERT_EQ(a.found.size(), b.found.size());
  for (size_t i = 0; i < a.found.size(); ++i) EXPECT_EQ(a.found[i].sigma, b.found[i].sigma);
  EXPECT_EQ(a.spread, b.spread);
  EXPECT_EQ(a.common_factor, b.common_factor);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.memory_rows, b.memory_rows);
  EXPECT_EQ(a.memory_error, b.memory_error);
  EXPECT_EQ(a.worst_memory, b.worst_memory);
  EXPECT_EQ(a.most_devices, b.most_devices);
  EXPECT_EQ(a.suspects.size(), b.suspects.size());
}

// A row printed in two tables would count twice; one that ran out of memory was not measured.
TEST(Learning, LeavesOutWhatWasNotMeasuredHere) {
  const Place p = place("a100-80", "composer-fsdp");
  const std::vector<Observation> rows = made_rows(p);
  const Calibration plain = calibrate(p.cluster, p.stack, rows, {}, 0);
  EXPECT_EQ(plain.rows, rows.size());
  EXPECT_EQ(plain.memory_rows, rows.size());
  std::vector<Observation> more = rows;
  Observation repeat = rows[3];
  repeat.repeat = true;
  repeat.seconds *= 1.5;
  repeat.memory *= 1.5;
  Observation full = rows[5];
  full.seconds = 0;
  full.memory *= 2;
  full.out_of_memory = true;
  more.insert(more.begin(), {repeat, full});
  expect_same(calibrate(p.cluster, p.stack, more, {}, 0), plain);
}

TEST(Learning, ARowWithoutAMemoryTeachesTimesAlone) {
  const Place p = place("a100-80", "composer-fsdp");
  std::vector<Observation> rows = made_rows(p);
  const Calibration both = calibrate(p.cluster, p.stack, rows, {}, 0);
  for (Observation& o : rows) o.memory = 0;
  const Calibration times = calibrate(p.cluster, p.stack, rows, {}, 0);
  EXPECT_EQ(times.memory_rows, 0u);
  EXPECT_EQ(times.constants[Constant::gemm], both.constants[Constant::gemm]);
  for (const Constant id : memory_constants()) {
    EXPECT_EQ(times.constants[id], p.stack.constants[id]) << info(id).key;
  }
  EXPECT_LT(both.memory_error, 0.03);  // was 10 %
}

// With one free constant, the certainties (one over sigma squared) of the prior and of each row add
// up. A row is as certain as the rows agree with each other, but not more so than `noise`.
TEST(Learning, TheUncertaintyIsThatOfPriorAndRows) {
  Place p = place("a100-80", "composer-fsdp");
  p.stack.free = {Constant::gemm};
  const auto prior = p.stack.priors[static_cast<size_t>(Constant::gemm)].sigma;
  for (const double scatter : {0.0, 0.2}) {
    std::vector<Observation> rows = made_rows(p);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].seconds *= i % 2 == 0 ? 1 + scatter : 1;
    const Calibration c = calibrate(p.cluster, p.stack, rows, {}, 0);
    if (scatter > 0) {
      EXPECT_GT(c.spread, 2 * p.stack.noise);
    } else {
      EXPECT_LT(c.spread, 0.5 * p.stack.noise);
    }
    const double noise = std::max(c.spread, p.stack.noise);
    double certainty = 1 / (prior * prior);
    for (const Observation& o : rows) {
      const auto at = [&](double factor) {
        Constants moved = c.constants;
        moved.set(Constant::gemm, c.constants[Constant::gemm] * factor);
        return std::log(predicted_seconds(p.cluster, p.stack, moved, o));
      };
      const double slope = (at(std::exp(0.5e-3)) - at(std::exp(-0.5e-3))) / 1e-3;
      certainty += slope * slope / (noise * noise);
    }
    ASSERT_EQ(c.found.size(), 1u);
    EXPECT_EQ(c.found[0].id, Constant::gemm);
    EXPECT_NEAR(c.found[0].sigma * std::sqrt(certainty), 1, 0.01) << scatter;
    EXPECT_DOUBLE_EQ(c.found[0].identified, 1 - c.found[0].sigma / prior);
  }
}

TEST(Learning, OddRowsAreThoseBeyondThreeSpreads) {
  const Place p = place("a100-80", "composer-fsdp");
  std::vector<Observation> rows = made_rows(p);
  for (Observation& o : rows) o.seconds *= 1.3;  // a common factor is nobody's fault
  rows[2].seconds *= 1.5;
  const Calibration c = calibrate(p.cluster, p.stack, rows, {}, 0);
  ASSERT_EQ(c.suspects.size(), 1u);
  EXPECT_EQ(c.suspects[0].id, "row2");
  EXPECT_NEAR(c.suspects[0].residual, 1 / 1.5 - 1, 0.05);  // predicted over measured
  EXPECT_EQ(c.most_devices, 16);
}

}  // namespace
}  // namespace stretto::plan
