// What the rows of a table allow. Twins are rows alike in all but the number of micro-batches. In a
// steady state they lie on a straight line, and what an iteration costs once (where the line meets
// no micro-batch at all) is the same for every micro-batch size and sequence length on the same
// devices. How far rows lie from the best such lines of their own says how much of a table's error
// is its own.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/observations.h"

namespace stretto::plan {

struct TwinFloor {
  size_t rows = 0;    // that have twins
  double median = 0;  // percent: from the lines that miss these rows least in sum
  double p90 = 0;
  size_t beyond = 0;  // rows outside `reach` on the lines that leave fewest outside
};

// `reach`: relative, 0.03 for 3 %.
TwinFloor twin_floor(const std::vector<Observation>& rows, double reach);

}  // namespace stretto::plan
