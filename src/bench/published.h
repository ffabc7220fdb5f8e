// Published rows beside ours: the one nearest to a run.
#pragma once

#include <vector>

#include "bench/record.h"
#include "reference/rows.h"

namespace stretto {

Precision precision_of(const ReferenceRow& row);

// The published run that resembles `record` most: first by parameters, then by sequence length,
// devices, precision and hardware. Nothing when no row has a size, or
// the record has none.
const ReferenceRow* nearest_row(const RunRecord& record, const std::vector<ReferenceRow>& rows);

}  // namespace stretto
