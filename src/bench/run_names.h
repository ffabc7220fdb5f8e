// What runs are called where their labels do not say.
#pragma once

#include <string>
#include <vector>

#include "bench/record.h"

namespace stretto {

// One per record: its label, else model and layout ("tiny dp2 tp1 pp1 mbs4 zero1 full"); where two
// configurations have one name, followed by the keys in which those differ ("seq_len=64").
std::vector<std::string> run_names(const std::vector<const RunRecord*>& records);

}  // namespace stretto
