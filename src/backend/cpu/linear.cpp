// The linear layer and its two gradients, each one matrix product with a fused epilogue.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/fp8.h"
#include "backend/cpu/linear_bias.h"

namespace stretto {
namespace {

ConstMatrix matrix(ConstTensor t, bool transposed = false) {
  return {t.data(), t.dtype(), t.last(), transposed};
}
Matrix matrix(Tensor t) { return {t.data(), t.dtype(), t.last()}; }

}  // namespace

ConstTensor CpuBackend::operand(ConstTensor t, DType eight_bit_format, int slot) {
  if (!eight_bit_ || t.dtype() != DType::bf16) return t;
  std::vector<std::byte>& bytes = rounded_[slot];
  if (bytes.size() < t.bytes()) bytes.resize(t.bytes());
  const Tensor copy(bytes.data(), t.dtype(), t.shape());
  const float scale = fp8_scale(t, eight_bit_format, threads_);
  fake_quantize_fp8(copy, t, eight_bit_format, scale, threads_);
  return copy;
}

void CpuBackend::do_linear_forward(Tensor out, ConstTensor inp, ConstTensor weight,
                                   ConstTensor bias, const LinearOptions& options) {
  GemmArgs args;
  args.m = inp.rows();
  args.n = weight.rows();
  args.k = weight.last();
  args.a = matrix(operand(inp, DType::f8e4m3, 0));
  args.b = matrix(operand(weight, DType::f8e4m3, 1), true);
  args.c = matrix(out);
  args.epilogue.bias = bias.data();
  args.epilogue.bias_type = bias.dtype();
  args.epilogue.gelu = options.gelu;
  args.epilogue.pre = options.pre.data();
  args.epilogue.keeps_derivative = options.keeps == GeluKeeps::derivative;
  gemm(args, gemm_);
  if (options.addend) do_add(out, out, options.addend);
}

void CpuBackend::do_linear_backward_input(Tensor dinp, ConstTensor dout, ConstTensor weight,
                                          const LinearInputGradOptions& options) {
  GemmArgs args;
  args.m = dout.rows();
  args.n = weight.last();
  args.k = weight.rows();
  args.a = matrix(operand(dout, DType::f8e5m2, 0));
  args.b = matrix(operand(weight, DType::f8e4m3, 1));
  args.c = matrix(dinp);
  args.accumulate = options.mode == Grad::accumulate;
  args.epilogue.gelu = options.gelu;
  args.epilogue.grad_pre = options.pre.data();
  args.epilogue.keeps_derivative = options.keeps == GeluKeeps::derivative;
  gemm(args, gemm_);
  if (options.dbias) column_sums(options.dbias, dinp, Grad::accumulate, gemm_);
  if (options.act) do_gelu_forward(options.act, options.pre, options.gelu);
}

void CpuBackend::do_linear_backward_weight(Tensor dweight, Tensor dbias, ConstTensor inp,
                                           ConstTensor dout, Grad mode) {
  GemmArgs args;
  args.m = dout.last();
  args.n = inp.last();
  args.k = inp.rows();
  args.a = matrix(operand(dout, DType::f8e5m2, 0), true);
  args.b = matrix(operand(inp, DType::f8e4m3, 1));
  args.c = matrix(dweight);
  args.accumulate = mode == Grad::accumulate;
  gemm(args, gemm_);
  if (dbias) column_sums(dbias, dout, mode, gemm_);
}

}  // namespace stretto
