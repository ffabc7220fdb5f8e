// What ranks tell each other before and after a run. Nothing here is meant for use inside a step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/comm.h"

namespace stretto {

// One text (or bytes) of every rank, in rank order, on rank 0; empty elsewhere. Collective.
std::vector<std::string> gather_texts(Comm& world, const std::string& mine);

// The text (or bytes) of rank `root` on every rank. Collective.
std::string broadcast_text(Comm& world, const std::string& mine, int root);

// Collective. If any rank has an error, every rank throws that of the lowest such rank: so all end
// with the same code and message, whichever ends first.
void throw_together(Comm& world, const std::optional<Error>& mine);

// Seconds to add to this rank's clock_seconds() to get rank 0's. Collective. 0 on rank 0, and where
// the difference is smaller than the time that a message takes (one machine).
double clock_offset(Comm& world);

}  // namespace stretto
