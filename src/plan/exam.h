// How well the model predicts runs that it has not seen: whole groups of the published tables are
// held out.
#pragma once

#include <string>
#include <vector>

#include "plan/calibrate.h"
#include "plan/twins.h"

namespace stretto::plan {

struct ExamSpec {
  std::string name;        // "BLOOM 3D"
  std::string file, part;  // where its rows are in the published tables
  std::string cluster, stack;
  std::vector<std::string> keys;  // columns whose values are held out, one value at a time
  double target_median = 0, target_p90 = 0;  // percent
  double memory_median = 0, memory_p90 = 0;  // percent; 0: no target
};
const std::vector<ExamSpec>& exam_specs();

struct Errors {  // relative, in percent
  size_t rows = 0;
  double median = 0, p90 = 0;

  bool meets(double target_median, double target_p90) const {
    return median <= target_median && p90 <= target_p90;
  }
};

Errors errors_of(const std::vector<double>& fractions);

struct HeldOut {
  std::string key;
  Errors all, clean;                         // with and without the rows known to be odd
  std::vector<double> errors, clean_errors;  // of each row: fractions, without sign
  size_t covered = 0;  // rows of `all` inside the interval that a plan would have shown
  // Groups so large that too few rows remain for a fit: their figures are kept apart.
  std::vector<std::string> unfair;
  Errors unfair_errors;
};

struct RankGroup {
  std::string name;
  size_t rows = 0;
  double spearman = 0;
  size_t place = 0;   // where the predicted best stands in the measured order, from 1
  double regret = 0;  // speed that is lost by taking it
};

struct RowResult {
  std::string id;
  std::string layout;
  double measured = 0, fitted = 0;
  double memory_measured = 0, memory_fitted = 0;  // bytes; 0: none
  std::vector<double> held;                       // relative error with each key held out
  std::string anomaly;
};

struct ExamTable {
  ExamSpec spec;
  size_t rows = 0, odd = 0;
  Errors in_sample;
  TwinFloor floor;  // of the seconds, with the p90 target as reach
  std::vector<HeldOut> seconds;
  std::vector<HeldOut> memory;
  std::vector<RankGroup> groups;  // each predicted by a fit that has seen none of its rows
  size_t oom_rows = 0, oom_called = 0, oom_tight = 0;
  std::vector<std::string> oom_missed;  // "id (why it is odd)"
  size_t ran = 0, ran_called_oom = 0;
  std::vector<RowResult> results;
  Stack fitted;  // with the constants of the fit over all rows
  std::string device;
  FitResult fit;

  double decisions_within(double regret) const;  // share of the groups
};

struct Exam {
  std::vector<ExamTable> tables;
  double wall_seconds = 0;
};

// The accuracy per published table: tables of one publication that share a target, with all their
// held-out predictions together, whatever was held out.
struct WholeTable {
  std::string names;
  double target_median = 0, target_p90 = 0;  // percent
  Errors all, clean;

  bool passes() const { return all.meets(target_median, target_p90); }
};
std::vector<WholeTable> whole_tables(const Exam& exam);

// `only`: part of a table's name; empty: all tables. Throws Error if no table has it in its name.
Exam run_exam(const std::vector<ReferenceRow>& rows, const std::string& only = "");

std::string exam_text(const Exam& exam, bool with_rows);  // for a terminal
std::string exam_markdown(const Exam& exam);              // docs/planner_exam.md

}  // namespace stretto::plan
