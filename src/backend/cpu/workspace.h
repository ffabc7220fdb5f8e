// How much working memory the CPU backend's operators take for a rank's shapes: what its memory
// plan sets aside.
#pragma once

#include "account/memory.h"

namespace stretto {

Workspace cpu_workspace(const RankShape& shape, int threads);

}  // namespace stretto
