// out = (inp weight) * gelu'(pre), and the column sums of out, tile row by tile row: whoever adds
// them up in order gets the same bits every time.
#include "backend/cuda/fused/elementwise.cuh"
#include "backend/cuda/fused/kernel.cuh"

namespace stretto::cuda::fused {

void dgelu_product(const FusedProduct& p, cudaStream_t stream) {
  using Gradient = fusion::Sm90Compute<Forms<Gelu::tanh>::Gradient, float, float, kNearest>;
  using Product = fusion::Sm90EVT<Gradient, fusion::Sm90AccFetch, fusion::Sm90SrcFetch<Bf16>>;
  using ColumnSums =
      fusion::Sm90RowReduction<cutlass::plus, cutlass::plus, cutlass::plus, 0, Tile, float, float,
                               kNearest, Stride<_0, _1, _0>, 4, true, /*FinalReduction=*/false,
                               /*VisitCheckOOB=*/false>;
  using K = Kernel<fusion::Sm90EVT<ColumnSums, Product>, Bf16, false>;
  K::run(p, {{{}, {}, {}}, {p.partial}}, p.pre, stream);
}

}  // namespace stretto::cuda::fused
