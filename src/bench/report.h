// The report: one self-contained page, opened from disk without network, light and dark.
#pragma once

#include <string>
#include <vector>

#include "bench/record.h"
#include "bench/training_curve.h"

namespace stretto {

// Whether the records are parts of one training run, which may have been stopped and continued, and
// not runs to compare.
bool one_training_run(const std::vector<RunRecord>& records);

// `nonce`: letters and digits. The page's content policy runs only scripts and styles with this
// nonce, so that no text in a record can run. `title` appears as it is. `curve`: of one training
// run, else empty.
std::string report_page(const std::vector<RunRecord>& records, const std::string& title,
                        const std::string& nonce, const TrainingCurve& curve = {});

std::string random_nonce();

}  // namespace stretto
