// Published rows beside ours: as records, and the one nearest to a run.
#pragma once

#include <optional>
#include <vector>

#include "bench/record.h"
#include "reference/rows.h"

namespace stretto {

// A record that stands for a published MPT or MosaicGPT row: its configuration, its device, and one
// step whose time lies inside the rounding interval of every throughput and utilisation it prints.
// `source` is "published ID". Throws Error (bad_data) for a row that states no throughput or whose
// figures exclude each other.
RunRecord record_of(const ReferenceRow& row);

// The published run that resembles `record` most: first by parameters, then by sequence length,
// devices, precision and hardware. Nothing when no row has a size, or
// the record has none.
const ReferenceRow* nearest_row(const RunRecord& record, const std::vector<ReferenceRow>& rows);

}  // namespace stretto
