// Compiled instead of gemm_onednn.cpp in a build without oneDNN.
#include "backend/cpu/gemm_implementations.h"

namespace stretto {

bool supports_onednn(const GemmArgs&) { return false; }
void gemm_onednn(const GemmArgs&, GemmContext&) {}
bool onednn_is_native(DType) { return false; }

}  // namespace stretto
