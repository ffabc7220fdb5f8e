// How much working memory the CPU backend's operators need for a rank's shapes. The memory plan
// reserves it.
#pragma once

#include "account/memory.h"

namespace stretto {

Workspace cpu_workspace(const RankShape& shape, int threads);

}  // namespace stretto
