// What must reproduce, and what is known not to.
#include "reference/check.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "reference/figures.h"
#include "reference/source.h"

namespace stretto {
namespace {

struct Count {
  int64_t rows = 0, reproduced = 0;
};

std::map<std::pair<std::string, std::string>, Count> counts(const ReferenceCheck& check) {
  std::map<std::pair<std::string, std::string>, Count> sum;
  for (const FigureSummary& f : check.figures) {
    sum[{f.file, f.figure}].rows += f.rows;
    sum[{f.file, f.figure}].reproduced += f.reproduced;
  }
  return sum;
}

TEST(ReferenceCheck, EveryFigureButTheKnownAnomalies) {
  const ReferenceCheck check = check_reference(load_reference());
  auto sum = counts(check);
  const auto expect = [&](const char* file, const char* figure, int64_t rows, int64_t fit) {
    EXPECT_EQ((sum[{file, figure}].rows), rows) << file << ' ' << figure;
    EXPECT_EQ((sum[{file, figure}].reproduced), fit) << file << ' ' << figure;
  };
  for (const char* figure : {"parameters", "MFU", "HFU", "Model TFLOP", "batch in tokens",
                             "global batch", "sequences/s", "tokens/s/GPU"}) {
    expect("mpt", figure, 198, 198);
  }
  for (const char* figure : {"parameters", "MFU*", "MFU", "HFU*", "HFU", "batch in tokens",
                             "global batch", "sequences/s", "tokens/s/GPU"}) {
    expect("mosaicgpt", figure, 300, 300);
  }
  expect("bloom", "TFLOPs", 98, 95);
  expect("bloom", "samples/s", 6, 6);
  expect("fugaku", "TFLOPs", 34, 32);
  expect("fugaku", "aggregate", 23, 23);
  EXPECT_TRUE(check.passed());
}

TEST(ReferenceCheck, TheFailuresAreTheKnownOnesWithReasons) {
  std::set<std::string> formula, structure;
  for (const FigureFailure& f : check_reference(load_reference()).failures) {
    EXPECT_TRUE(f.known) << f.id;
    EXPECT_FALSE(f.reason.empty()) << f.id;
    (f.figure == "TFLOPs" ? formula : structure).insert(f.id);
  }
  EXPECT_EQ(formula, (std::set<std::string>{"bloom-060", "bloom-061", "bloom-062", "fugaku124m-027",
                                            "fugaku124m-034"}));
  EXPECT_EQ(structure, (std::set<std::string>{"bloom-059", "fugaku124m-005", "fugaku124m-008",
                                              "fugaku124m-009", "fugaku124m-011", "fugaku30b-009",
                                              "fugaku30b-010", "fugaku30b-011", "fugaku30b-012"}));
}

TEST(ReferenceCheck, ErrorsStayWhereTheyWereMeasured) {
  for (const FigureSummary& f : check_reference(load_reference()).figures) {
    const bool fraction = f.figure.find("FU") != std::string::npos;
    const bool bloom = f.file == "bloom" && f.figure == "TFLOPs";
    const double most = f.figure == "parameters" ? 0 : fraction ? 4e-4 : bloom ? 8e-5 : 0.12;
    EXPECT_LE(f.max_error, most) << f.file << ' ' << f.group << ' ' << f.figure;
    EXPECT_LE(f.median_error, f.max_error);
  }
}

// The controls: the wrong formula must fail everywhere, or the check proves nothing.
TEST(ReferenceCheck, ExchangedConventionsFailEveryRow) {
  auto rows = load_reference();
  for (ReferenceRow& row : rows) {
    if (row.file == "mpt") {
      row.file = "mosaicgpt";
    } else if (row.file == "mosaicgpt") {
      row.file = "mpt";
      row.tflops_raw.clear();
    }
  }
  auto sum = counts(check_reference(rows));
  EXPECT_EQ((sum[{"mosaicgpt", "MFU"}].reproduced), 0);
  EXPECT_EQ((sum[{"mpt", "MFU"}].reproduced), 0);
}

TEST(ReferenceCheck, ExchangedRecomputationFailsEveryFugakuRow) {
  auto rows = load_reference();
  for (ReferenceRow& row : rows) {
    row.activation_checkpointing = !row.activation_checkpointing.value_or(true);
  }
  EXPECT_EQ((counts(check_reference(rows))[{"fugaku", "TFLOPs"}].reproduced), 0);
}

}  // namespace
}  // namespace stretto
