// What this program is, for ranks to compare before they train together.
#pragma once

#include <vector>

#include "train/agreement.h"

namespace stretto {

// Version, commit and parts of the build, and the MPI library that was loaded.
std::vector<Fact> program_facts();

}  // namespace stretto
