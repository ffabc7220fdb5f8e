// Compiled instead of the AMX files on other processors than x86. Nothing here is ever chosen.
#include "backend/cpu/attention.h"
#include "backend/cpu/gemm_implementations.h"

namespace stretto {

bool supports_amx(const GemmArgs&) { return false; }
void gemm_amx(const GemmArgs&, GemmContext&) {}
bool amx_is_native() { return false; }
GemmScratch amx_scratch(int64_t, int64_t, int64_t) { return {}; }

bool supports_amx_attention(ConstTensor, const AttentionOptions&) { return false; }
int64_t attention_amx_bytes(const AttentionShape&) { return 0; }
void attention_forward_amx(Tensor, Tensor, ConstTensor, const AttentionOptions&, GemmContext&) {}
void attention_backward_amx(Tensor, ConstTensor, ConstTensor, ConstTensor, ConstTensor,
                            const AttentionOptions&, GemmContext&) {}

}  // namespace stretto
