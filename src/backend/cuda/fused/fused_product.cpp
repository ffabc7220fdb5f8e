#include "backend/cuda/fused/fused_product.h"

#include "backend/cuda/fused/products.h"

namespace stretto::cuda {
namespace {

// The bulk copy engine moves 16 bytes at least.
bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

}  // namespace

bool fused_fits(const FusedProduct& p, int compute_capability) {
  const bool shapes = p.rows > 0 && p.n > 0 && p.k > 0 && p.n % 8 == 0 && p.k % 8 == 0 &&
                      p.rows < INT32_MAX && p.n < INT32_MAX && p.k < INT32_MAX;
  const bool places = aligned(p.inp) && aligned(p.weight) && aligned(p.out) && aligned(p.bias) &&
                      aligned(p.pre) && aligned(p.addend);
  // Partial sums lie in rows of whole tiles.
  const bool whole = p.partial == nullptr || p.n % fused::kTile == 0;
  const bool through_gelu =
      p.kind == FusedProduct::Kind::gelu || p.kind == FusedProduct::Kind::dgelu;
  return compute_capability == 90 && shapes && places && whole &&
         (!through_gelu || p.form == Gelu::tanh);
}

int fused_parts(int64_t rows) { return static_cast<int>((rows + fused::kTile - 1) / fused::kTile); }

void run_fused(const FusedProduct& p, cudaStream_t stream) {
  switch (p.kind) {
    case FusedProduct::Kind::bias:
      return fused::bias_product(p, stream);
    case FusedProduct::Kind::add:
      return fused::add_product(p, stream);
    case FusedProduct::Kind::gelu:
      return fused::gelu_product(p, stream);
    case FusedProduct::Kind::dgelu:
      return fused::dgelu_product(p, stream);
  }
}

}  // namespace stretto::cuda
