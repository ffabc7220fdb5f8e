// How much the attention kernels of a GPU take. Rules refuse more before a run starts.
#pragma once

#include <cstdint>

namespace stretto {

constexpr int64_t kGpuHeadSize = 256;
constexpr int64_t kGpuHeads = 128;        // of a rank
constexpr int64_t kGpuSequences = 65535;  // of a micro-batch: a grid has no more places in y and z

}  // namespace stretto
