// The linear layer and its two gradients, each one matrix product with a fused epilogue.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/linear_bias.h"

namespace stretto {
namespace {

ConstMatrix matrix(ConstTensor t, bool transposed = false) {
  return {t.data(), t.dtype(), t.last(), transposed};
}
Matrix matrix(Tensor t) { return {t.data(), t.dtype(), t.last()}; }

}  // namespace

void CpuBackend::do_linear_forward(Tensor out, ConstTensor inp, ConstTensor weight,
                                   ConstTensor bias, const LinearOptions& options) {
  GemmArgs args;
  args.m = inp.rows();
  args.n = weight.rows();
  args.k = weight.last();
  args.a = matrix(inp);
  args.b = matrix(weight, true);
  args.c = matrix(out);
  args.epilogue.bias = bias.data();
  args.epilogue.bias_type = bias.dtype();
  args.epilogue.gelu = options.gelu;
  args.epilogue.pre = options.pre.data();
  gemm(args, gemm_);
}

void CpuBackend::do_linear_backward_input(Tensor dinp, ConstTensor dout, ConstTensor weight,
                                          const LinearInputGradOptions& options) {
  GemmArgs args;
  args.m = dout.rows();
  args.n = weight.last();
  args.k = weight.rows();
  args.a = matrix(dout);
  args.b = matrix(weight);
  args.c = matrix(dinp);
  args.accumulate = options.mode == Grad::accumulate;
  args.epilogue.grad_pre = options.pre.data();
  gemm(args, gemm_);
  if (options.dbias) column_sums(options.dbias, dinp, Grad::accumulate, gemm_);
}

void CpuBackend::do_linear_backward_weight(Tensor dweight, Tensor dbias, ConstTensor inp,
                                           ConstTensor dout, Grad mode) {
  GemmArgs args;
  args.m = dout.last();
  args.n = inp.last();
  args.k = inp.rows();
  args.a = matrix(dout, true);
  args.b = matrix(inp);
  args.c = matrix(dweight);
  args.accumulate = mode == Grad::accumulate;
  gemm(args, gemm_);
  if (dbias) column_sums(dbias, dout, mode, gemm_);
}

}  // namespace stretto
