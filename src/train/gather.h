// What ranks tell rank 0 when a run is over. Nothing here is meant for use inside a step.
#pragma once

#include <string>
#include <vector>

#include "comm/comm.h"

namespace stretto {

// One text (or bytes) of every rank, in rank order, on rank 0; empty elsewhere. Collective.
std::vector<std::string> gather_texts(Comm& world, const std::string& mine);

// Seconds to add to this rank's clock_seconds() to get rank 0's. Collective. 0 on rank 0, and where
// the difference is smaller than the time that a message takes (one machine).
double clock_offset(Comm& world);

}  // namespace stretto
