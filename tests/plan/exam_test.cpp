#include "plan/exam.h"

#include <gtest/gtest.h>

#include "reference/source.h"

namespace stretto::plan {
namespace {

ExamTable table(const std::string& name, const std::string& file, double median, double p90,
                std::vector<double> errors) {
  ExamTable t;
  t.spec.name = name;
  t.spec.file = file;
  t.spec.target_median = median;
  t.spec.target_p90 = p90;
  HeldOut held;
  held.errors = std::move(errors);
  held.clean_errors = {0.01};
  t.seconds.push_back(std::move(held));
  return t;
}

TEST(WholeTables, PoolWhatSharesAPublicationAndATarget) {
  Exam exam;
  exam.tables = {table("A, small", "a", 2, 5, {0.01, 0.02}), table("A, large", "a", 2, 5, {0.03}),
                 table("A, other", "a", 1, 5, {0.2}), table("B", "b", 2, 5, {0.3})};
  exam.tables[3].spec.memory_median = 3;
  exam.tables[3].memory.push_back(exam.tables[0].seconds[0]);
  const std::vector<WholeTable> whole = whole_tables(exam);
  ASSERT_EQ(whole.size(), 4u);
  EXPECT_EQ(whole[0].names, "A, small + A, large");
  EXPECT_EQ(whole[0].all.rows, 3u);
  EXPECT_DOUBLE_EQ(whole[0].all.median, 2);
  EXPECT_EQ(whole[0].clean.rows, 2u);
  EXPECT_TRUE(whole[0].passes());
  EXPECT_FALSE(whole[1].passes());
  EXPECT_EQ(whole[3].names, "B, memory");
}

// What docs/planner_exam.md says: every published table within its target, odd rows included, with
// the groups held out; every row that ran out of memory is called, none that ran.
TEST(Exam, EveryPublishedTableIsWithinItsTarget) {
  const Exam exam = run_exam(load_reference());
  const std::vector<WholeTable> whole = whole_tables(exam);
  EXPECT_EQ(whole.size(), 6u);
  for (const WholeTable& w : whole) {
    EXPECT_TRUE(w.passes()) << w.names << ": " << w.all.median << " / " << w.all.p90;
  }
  for (const ExamTable& t : exam.tables) {
    EXPECT_EQ(t.oom_called, t.oom_rows) << t.spec.name;
    EXPECT_EQ(t.ran_called_oom, 0u) << t.spec.name;
    if (t.spec.file != "bloom") continue;  // whose groups someone had to choose from
    EXPECT_GE(t.decisions_within(0.02), 0.9) << t.spec.name;
  }
}

TEST(ExamText, SumsUpTheDecisionsOfAllGroups) {
  Exam exam;
  exam.tables = {table("A", "a", 2, 5, {0.01})};
  exam.tables[0].groups = {
      {"one", 5, 0.9, 1, 0.0}, {"two", 5, 0.5, 2, 0.01}, {"three", 5, 0.7, 3, 0.05}};
  for (const bool with_rows : {false, true}) {
    const std::string text = exam_text(exam, with_rows);
    EXPECT_NE(text.find("  decisions: 3 groups, Spearman 0.70, predicted best within 2 % in 67 %, "
                        "worst 5.0 %\n"),
              std::string::npos)
        << text;
    EXPECT_EQ(text.find("group two") != std::string::npos, with_rows);
  }
}

}  // namespace
}  // namespace stretto::plan
