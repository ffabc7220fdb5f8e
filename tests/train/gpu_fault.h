#pragma once

namespace stretto {

// Runs a kernel that traps: every later CUDA call of this process fails, as if the GPU were lost.
void break_gpu();

}  // namespace stretto
