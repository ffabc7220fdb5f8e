// Finds the published row that is closest to a run of ours.
#pragma once

#include <vector>

#include "bench/record.h"
#include "reference/rows.h"

namespace stretto {

Precision precision_of(const ReferenceRow& row);

// The published run that is most like `record`: first by parameters, then by sequence length,
// devices, precision and hardware. nullptr if no row has a size, or the record has none.
const ReferenceRow* nearest_row(const RunRecord& record, const std::vector<ReferenceRow>& rows);

}  // namespace stretto
