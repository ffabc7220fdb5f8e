#include "bench/training_curve.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bench/sample_record.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

// A step in which part i took `unit` x (i + 1) seconds.
std::string step_line(int64_t step, double loss, double unit) {
  std::string times;
  for (int i = 0; i < kParts; ++i) {
    times += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", name_of(static_cast<Part>(i)),
                         unit * (i + 1));
  }
  return fmt::format("{{\"step\":{},\"loss\":{},\"times\":{{{}}}}}\n", step, loss, times);
}

RunRecord start(const char* time, int64_t first, size_t steps, int64_t warmup) {
  RunRecord r = sample_record();
  r.started = time;
  r.first_step = first;
  r.steps.assign(steps, {0.1, 5, false});
  r.warmup = warmup;
  r.parts = {};
  return r;
}

TEST(TrainingCurve, LinesAreStepsAndEvaluations) {
  const auto step = parse_metrics_line(step_line(7, 2.5, 1));
  ASSERT_TRUE(step);
  EXPECT_EQ(step->step, 7);
  EXPECT_FALSE(step->evaluation);
  EXPECT_EQ(step->loss, 2.5);
  ASSERT_TRUE(step->parts);
  EXPECT_EQ((*step->parts)[0], 1);
  EXPECT_EQ((*step->parts)[kParts - 1], kParts);
  const auto evaluation = parse_metrics_line(R"({"step":8,"eval_loss":2.25})");
  ASSERT_TRUE(evaluation);
  EXPECT_TRUE(evaluation->evaluation);
  EXPECT_EQ(evaluation->loss, 2.25);
  // On a GPU operators are not timed; a loss may be no number.
  const auto gpu = parse_metrics_line(R"({"step":9,"loss":null,"times":{"data":0.1}})");
  ASSERT_TRUE(gpu);
  EXPECT_TRUE(std::isnan(gpu->loss));
  EXPECT_FALSE(gpu->parts);
  for (const char* other : {"", "7", "[7]", "{}", R"({"step":8,"checkpoint":{}})", R"({"loss":2})",
                            R"({"step":-1,"loss":2})", R"({"step":1.5,"loss":2})",
                            R"({"step":"1","loss":2})", R"({"step":1e300,"loss":2})",
                            R"({"step":18446744073709551615,"loss":2})", R"({"step":8,"loss":2)"}) {
    EXPECT_FALSE(parse_metrics_line(other)) << other;
  }
}

// Part 2 was continued from step 6, so steps 7 and 8 of part 1 are gone. No record has step 13, and
// of step 14 only the beginning of a line is there.
TEST(TrainingCurve, EachStartHasTheMeanOfItsTimedSteps) {
  const TempDir dir;
  std::string text;
  for (int64_t step = 1; step <= 13; ++step) {
    text += step_line(step, 5 - 0.1 * static_cast<double>(step), static_cast<double>(step));
    if (step == 6) text += "{\"step\":6,\"eval_loss\":4.5}\nnot ours\n";
  }
  dir.write("metrics.jsonl", text + R"({"step":14,"loss":1})");
  std::vector<RunRecord> records = {start("2026-04-01T13:00:00Z", 7, 6, 0),
                                    start("2026-04-01T12:00:00Z", 1, 8, 2),
                                    start("2026-04-01T14:00:00Z", 100, 5, 0)};
  const TrainingCurve curve = read_training_curve(posix_fs(), dir.path(), records);
  ASSERT_EQ(curve.steps.size(), 13u);
  EXPECT_EQ(curve.steps[11].step, 12);
  EXPECT_DOUBLE_EQ(curve.steps[11].loss, 3.8);
  ASSERT_EQ(curve.evaluations.size(), 1u);
  EXPECT_EQ(curve.evaluations[0].step, 6);
  EXPECT_EQ(curve.evaluations[0].loss, 4.5);
  for (size_t i = 0; i < kParts; ++i) {
    const auto weight = static_cast<double>(i + 1);
    EXPECT_DOUBLE_EQ(records[0].parts[i], 9.5 * weight);  // of steps 7 to 12
    EXPECT_DOUBLE_EQ(records[1].parts[i], 4.5 * weight);  // of 3 to 6
    EXPECT_EQ(records[2].parts[i], 0);
  }
  EXPECT_DOUBLE_EQ(records[0].parts_wall, 9.5 * 55);
}

TEST(TrainingCurve, LongFilesAreReadInPieces) {
  const TempDir dir;
  std::string text;
  for (int64_t step = 1; step <= 20'000; ++step) text += step_line(step, 2, 1e-3);
  ASSERT_GT(text.size(), 3u << 20);
  dir.write("metrics.jsonl", text);
  std::vector<RunRecord> records = {start("2026-04-01T12:00:00Z", 1, 20'000, 0)};
  const TrainingCurve curve = read_training_curve(posix_fs(), dir.path(), records);
  ASSERT_EQ(curve.steps.size(), 20'000u);
  for (size_t i = 0; i < curve.steps.size(); ++i) {
    ASSERT_EQ(curve.steps[i].step, static_cast<int64_t>(i) + 1);
  }
  EXPECT_NEAR(records[0].parts[9], 1e-2, 1e-9);
}

TEST(TrainingCurve, WithoutMetricsThereIsNone) {
  const TempDir dir;
  std::vector<RunRecord> records = {start("2026-04-01T12:00:00Z", 1, 5, 0)};
  records[0].parts[0] = 3;  // of a run that was traced
  EXPECT_TRUE(read_training_curve(posix_fs(), dir.path(), records).steps.empty());
  std::filesystem::create_directory(dir / "metrics.jsonl");
  EXPECT_TRUE(read_training_curve(posix_fs(), dir.path(), records).steps.empty());
  EXPECT_EQ(records[0].parts[0], 3);
}

}  // namespace
}  // namespace stretto
