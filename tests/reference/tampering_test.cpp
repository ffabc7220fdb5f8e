// A published figure that is changed beyond its rounding must be found and named.
#include <gtest/gtest.h>

#include <algorithm>

#include "reference/check.h"
#include "reference/source.h"

namespace stretto {
namespace {

struct Change {
  friend void PrintTo(const Change& change, std::ostream* out) {
    *out << change.id << ' ' << change.column << " = " << change.value;
  }

  size_t table;
  const char* id;
  const char* column;
  const char* value;
};

ReferenceTables changed(const Change& change) {
  ReferenceTables all = embedded_reference();
  CsvTable& table = all.tables[change.table];
  const size_t id = *table.column("id"), column = *table.column(change.column);
  for (auto& row : table.rows) {
    if (row[id] != change.id) continue;
    EXPECT_NE(row[column], change.value);
    row[column] = change.value;
  }
  return all;
}

bool names(const ReferenceCheck& check, const std::string& id) {
  return std::any_of(check.failures.begin(), check.failures.end(),
                     [&](const FigureFailure& f) { return !f.known && f.id == id; });
}

class Tampering : public ::testing::TestWithParam<Change> {};

TEST_P(Tampering, IsFoundAndNamed) {
  const ReferenceCheck check = check_reference(load_reference(changed(GetParam())));
  EXPECT_FALSE(check.passed());
  EXPECT_TRUE(names(check, GetParam().id)) << GetParam().id << ' ' << GetParam().column;
}

INSTANTIATE_TEST_SUITE_P(
    Reference, Tampering,
    ::testing::Values(
        Change{0, "mpt-001", "mfu", "0.4259"}, Change{0, "mpt-002", "hfu", "0.4823"},
        Change{0, "mpt-100", "params", "124046593"}, Change{0, "mpt-001", "tflops_raw", "4.212983"},
        Change{0, "mpt-001", "tokens_per_sec_per_gpu", "1041"},
        Change{0, "mpt-150", "tokens_per_sec", "99999"},
        Change{1, "mosaicgpt-001", "mfu_star", "0.1237"},
        Change{1, "mosaicgpt-200", "hfu", "0.9001"},
        Change{1, "mosaicgpt-300", "global_batch_tokens", "524289"},
        Change{2, "bloom-001", "tflops_per_gpu", "108.50"},
        Change{2, "bloom-077", "tflops_per_gpu", "129.18"},
        Change{2, "bloom-077", "sec_per_iter", "125.89"}, Change{2, "bloom-023", "dp", "5"},
        // A known anomaly excuses only itself: with its fix it must still fit.
        Change{2, "bloom-060", "tflops_per_gpu", "150.00"}, Change{2, "bloom-060", "anomaly", ""},
        // One without a fix excuses only the figures it was noted for.
        Change{3, "fugaku124m-027", "sec_per_iter", "99.9"},
        Change{3, "fugaku124m-027", "tflops_per_gpu", "0.99"},
        Change{3, "fugaku124m-034", "sec_per_iter", "1.04"},
        Change{3, "fugaku124m-005", "dp", "512"}, Change{3, "fugaku124m-009", "nodes", "7"},
        Change{3, "fugaku124m-011", "global_batch", "1025"},
        Change{3, "fugaku124m-016", "tflops_per_gpu", "0.70"},
        Change{3, "fugaku124m-034", "aggregate_pflops", "0.22"},
        Change{3, "fugaku30b-016", "sec_per_iter", "290.1"}));

TEST(ReferenceTampering, ChangesInsideTheRoundingPass) {
  // 0.88 TFLOPs on 384 nodes is 0.33, printed as 0.3.
  EXPECT_TRUE(
      check_reference(load_reference(changed({3, "fugaku30b-003", "aggregate_pflops", "0.33"})))
          .passed());
}

TEST(ReferenceTampering, AVanishedRowOrCellIsNoticed) {
  const ReferenceCheck whole = check_reference(load_reference());
  ReferenceTables all = embedded_reference();
  all.tables[1].rows.pop_back();
  all.tables[1].lines.pop_back();
  ReferenceCheck check = check_reference(load_reference(all));
  EXPECT_TRUE(check.passed());
  require_as_many_rows(check, whole);
  EXPECT_FALSE(check.passed());
  check = check_reference(load_reference(changed({0, "mpt-001", "mfu", ""})));
  require_as_many_rows(check, whole);
  EXPECT_FALSE(check.passed());
  ReferenceCheck same = whole;
  require_as_many_rows(same, whole);
  EXPECT_TRUE(same.passed());
}

}  // namespace
}  // namespace stretto
