// One self-contained page: no network, opens from disk, light and dark.
#pragma once

#include <string>
#include <vector>

#include "bench/record.h"

namespace stretto {

// `nonce`: letters and digits; the page's policy lets only scripts and styles with it run, so that
// no text in a record can. `title` appears as it is.
std::string report_page(const std::vector<RunRecord>& records, const std::string& title,
                        const std::string& nonce);

std::string random_nonce();

}  // namespace stretto
