// How well a table could be predicted at best.
//
// Twins are rows that differ only in their number of micro-batches. In a steady state they lie on a
// straight line, and the cost that an iteration has once (where the line meets zero micro-batches)
// is the same for every micro-batch size and sequence length on the same devices. How far rows are
// from the best such lines shows how much of a prediction's error is in the table itself.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/observations.h"

namespace stretto::plan {

struct TwinFloor {
  size_t rows = 0;    // that have twins
  double median = 0;  // percent: from the lines with the smallest sum of errors
  double p90 = 0;
  size_t beyond = 0;  // rows outside `reach` of the lines that leave fewest rows outside
};

// `reach`: relative, 0.03 for 3 %.
TwinFloor twin_floor(const std::vector<Observation>& rows, double reach);

}  // namespace stretto::plan
