// Names for runs whose labels do not tell them apart.
#pragma once

#include <string>
#include <vector>

#include "bench/record.h"

namespace stretto {

// One name per record: its label, else model and layout ("tiny dp2 tp1 pp1 mbs4 zero1 full"). Where
// two configurations would get the same name, the keys in which they differ follow ("seq_len=64").
std::vector<std::string> run_names(const std::vector<const RunRecord*>& records);

}  // namespace stretto
