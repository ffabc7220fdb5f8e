// What `stretto tune` says of a result, kept or not.
#include "cli/tune_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/verbs.h"

namespace stretto::cli {
namespace {

TuneResult found(double before, double after) {
  TuneResult result;
  result.choices = {{"768x1024", 2, 0}};
  result.chosen = {1};
  result.effects = {{0.0, -0.01}};
  result.before = before;
  result.after = after;
  result.uncertainty = 0.01;
  result.draws = {{{1}, after}};
  return result;
}

const Error kNoSpace(ExitCode::io_error, "cannot write /cache/gemm.txt", "set XDG_CACHE_HOME");

TEST(TuneText, WhatIsFasterIsKept) {
  TuneResult result = found(1.0, 0.9);
  int stored = 0;
  keep_if_faster(result, true, [&] { ++stored; });
  EXPECT_EQ(stored, 1);
  EXPECT_NE(tune_text(result).find("later runs use it"), std::string::npos) << tune_text(result);
  const nlohmann::json json = tune_json(result);
  EXPECT_TRUE(json.at("kept").get<bool>());
  EXPECT_FALSE(json.contains("why_not_kept"));
  EXPECT_FALSE(result.not_written);
}

TEST(TuneText, WhatIsNotFasterIsNotAndSaysSo) {
  TuneResult result = found(1.0, 0.995);
  keep_if_faster(result, true, [] { FAIL() << "stored what is not faster"; });
  EXPECT_FALSE(result.kept);
  EXPECT_NE(tune_text(result).find("not kept: "), std::string::npos) << tune_text(result);
  EXPECT_NE(tune_json(result).at("why_not_kept"), "");

  TuneResult dry = found(1.0, 0.9);
  keep_if_faster(dry, false, [] { FAIL() << "stored in a dry run"; });
  EXPECT_FALSE(dry.kept);
  EXPECT_NE(tune_json(dry).at("why_not_kept"), tune_json(result).at("why_not_kept"));
}

// Minutes of measuring are not lost with a full disk.
TEST(TuneText, WhatCannotBeWrittenIsPrinted) {
  TuneResult result = found(1.0, 0.9);
  EXPECT_NO_THROW(keep_if_faster(result, true, [] { throw Error(kNoSpace); }));
  EXPECT_FALSE(result.kept);
  ASSERT_TRUE(result.not_written);
  EXPECT_EQ(result.not_written->code(), ExitCode::io_error);
  const nlohmann::json json = tune_json(result);
  EXPECT_FALSE(json.at("kept").get<bool>());
  EXPECT_EQ(json.value("why_not_kept", ""), "cannot write /cache/gemm.txt");
  EXPECT_EQ(json.at("choices").size(), 1u);
  EXPECT_NE(tune_text(result).find("not kept: cannot write /cache/gemm.txt"), std::string::npos)
      << tune_text(result);
}

// What a script reads: each choice with all of its options, and every draw.
TEST(TuneText, TheJsonHoldsWhatWasMeasured) {
  TuneResult result;
  result.choices = {{"forward 768x3072x768", 3, 2}, {"dw 768x768x768", 2, 0}};
  result.chosen = {1, 0};
  result.effects = {{0.004, -0.002, 0.001}, {0.0, 0.0}};
  result.before = 0.5;
  result.after = 0.4;
  result.uncertainty = 0.01;
  result.draws = {{{2, 0}, 0.5}, {{1, 1}, 0.375}};
  keep_if_faster(result, true, [] {});
  const nlohmann::json want = {
      {"seconds_before", 0.5},
      {"seconds_after", 0.4},
      {"gain", 0.5 / 0.4 - 1},
      {"standard_error", 0.01},
      {"kept", true},
      {"choices",
       {{{"name", "forward 768x3072x768"},
         {"before", 2},
         {"after", 1},
         {"effects", {0.004, -0.002, 0.001}}},
        {{"name", "dw 768x768x768"}, {"before", 0}, {"after", 0}, {"effects", {0.0, 0.0}}}}},
      {"draws",
       {{{"options", {2, 0}}, {"seconds", 0.5}}, {{"options", {1, 1}}, {"seconds", 0.375}}}}};
  EXPECT_EQ(nlohmann::json(tune_json(result)), want);
  testing::internal::CaptureStdout();
  print_json(tune_json(result));
  const std::string printed = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(nlohmann::json::accept(printed)) << printed;
  EXPECT_EQ(nlohmann::json::parse(printed).at("draws"), want.at("draws"));
  // The same figures for people: option 1 of the first takes 3 ms less than option 2.
  const std::string text = tune_text(result);
  EXPECT_NE(text.find("-0.60 %"), std::string::npos) << text;
  EXPECT_NE(text.find("a step before 500.0 ms, after 400.0 ms, in turn: +25.00 % tokens/s"),
            std::string::npos)
      << text;
}

// A GPU that is lost meanwhile is another matter.
TEST(TuneText, OtherFailuresEndTheRun) {
  TuneResult result = found(1.0, 0.9);
  EXPECT_THROW(
      keep_if_faster(result, true, [] { throw Error(ExitCode::peer_lost, "GPU 0 is gone"); }),
      Error);
}

}  // namespace
}  // namespace stretto::cli
