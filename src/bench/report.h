// The report: one self-contained page, opened from disk without network, light and dark.
#pragma once

#include <string>
#include <vector>

#include "bench/record.h"

namespace stretto {

// `nonce`: letters and digits. The page's content policy runs only scripts and styles with this
// nonce, so that no text in a record can run. `title` appears as it is.
std::string report_page(const std::vector<RunRecord>& records, const std::string& title,
                        const std::string& nonce);

std::string random_nonce();

}  // namespace stretto
