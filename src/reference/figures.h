// The figures in a row, each with what it should be.
#pragma once

#include <string>
#include <vector>

#include "reference/rows.h"

namespace stretto {

struct Interval {
  double low = 0, high = 0;

  bool meets(const Interval& other) const { return low <= other.high && other.low <= high; }
};

// Which anomalies of a row can excuse a wrong figure: none, "formula: ...", "structure: ...".
enum class FigureKind { strict, formula, structure };

struct FigureTest {
  std::string name;
  FigureKind kind = FigureKind::strict;
  std::string published;  // as printed
  double published_value = 0;
  Interval published_range;
  double recomputed = 0;  // from the printed digits
  Interval recomputed_range;
  // Some rows contain a figure that was computed from another rounded figure of the row.
  bool has_second_source = false;
  Interval second_range;

  bool reproduces() const;
  double relative_error() const;
};

// Every figure of a row that follows from its other columns.
std::vector<FigureTest> figure_tests(const ReferenceRow& row);

}  // namespace stretto
