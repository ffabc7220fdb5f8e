// Matrix products with 8-bit operands (amp_fp8): inputs and weights in e4m3 (more mantissa), output
// gradients in e5m2 (more range), one scale per tensor found anew at every use, f32 accumulation.
// Results, weights, biases and everything that is no matrix product of a layer stay as they are.
//
// Hopper multiplies 8-bit matrices only along their contiguous dim, so the gradients need
// transposed copies; they are made in the pass that rounds. The two gradients of a layer share one
// reading of dout: begin_linear_backward() names it, the first of them rounds it both ways.
#include "backend/cuda/column_sum.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/quantise.h"

namespace stretto::cuda {
namespace {

// Before an operand: its largest magnitude and its inverse scale. cuBLASLt refuses scales that are
// not aligned to 16 bytes, at launch only.
constexpr size_t kHeader = 256;
constexpr size_t kInverse = 64;  // bytes

GemmOperands operands(const EightBit& a, const EightBit& b, void* d, void* bias = nullptr) {
  GemmOperands o{a.data, b.data, d, bias};
  o.a_scale = a.inverse;
  o.b_scale = b.inverse;
  return o;
}

}  // namespace

void require_eight_bit_products(const cudaDeviceProp& gpu) {
  if (10 * gpu.major + gpu.minor >= 89) return;
  throw Error(ExitCode::bad_config,
              fmt::format("amp_fp8 on a GPU of compute capability {}.{} ({})", gpu.major, gpu.minor,
                          gpu.name),
              "products in 8 bits need 8.9 or newer: use precision=amp_bf16");
}

void CudaBackend::eight_bit_products(bool on) {
  if (on) require_eight_bit_products(properties_);
  eight_bit_ = on;
}

bool CudaBackend::eight_bit_fits(int64_t rows, int64_t n, int64_t k, DType type) const {
  return eight_bit_ && type == DType::bf16 && rows % 16 == 0 && n % 16 == 0 && k % 16 == 0 &&
         rows > 0;
}

void CudaBackend::begin_linear_backward(ConstTensor dout) {
  shared_gradient_ = {};
  if (eight_bit_ && !dout.none()) shared_gradient_.source = dout.data();
}

// x rounded into `memory`, which holds nothing else.
EightBit CudaBackend::rounded(char* memory, ConstTensor x, DType type, bool transposed) {
  auto* amax = reinterpret_cast<float*>(memory);
  auto* inverse = reinterpret_cast<float*>(memory + kInverse);
  char* data = memory + kHeader;
  quantise(transposed ? nullptr : data, transposed ? data : nullptr, amax, inverse, x, type,
           stream());
  return {data, inverse};
}

EightBit CudaBackend::rounded_gradient(ConstTensor dout, bool transposed) {
  const auto count = arena_round(static_cast<size_t>(dout.count()));
  const bool shared = shared_gradient_.source == dout.data();
  if (shared && shared_gradient_.ready) {
    return transposed ? shared_gradient_.transposed : shared_gradient_.normal;
  }
  auto* memory =
      static_cast<char*>(gradient_.reserve(kHeader + (shared ? 2 : 1) * count, stream()));
  if (!shared) return rounded(memory, dout, DType::f8e5m2, transposed);
  auto* inverse = reinterpret_cast<float*>(memory + kInverse);
  char* data = memory + kHeader;
  quantise(data, data + count, reinterpret_cast<float*>(memory), inverse, dout, DType::f8e5m2,
           stream());
  shared_gradient_.normal = {data, inverse};
  shared_gradient_.transposed = {data + count, inverse};
  shared_gradient_.ready = true;
  return transposed ? shared_gradient_.transposed : shared_gradient_.normal;
}

void CudaBackend::eight_bit_forward(Tensor out, ConstTensor inp, ConstTensor weight,
                                    ConstTensor bias, ConstTensor addend) {
  const int64_t rows = inp.rows(), n = weight.rows(), k = weight.last();
  const size_t first = kHeader + arena_round(static_cast<size_t>(n * k));
  char* memory = scratch<char>(static_cast<int64_t>(first + kHeader) + rows * k);
  const EightBit a = rounded(memory, weight, DType::f8e4m3, false);
  const EightBit b = rounded(memory + first, inp, DType::f8e4m3, false);
  GemmProblem problem = forward_problem(rows, n, k, DType::f8e4m3, out.dtype());
  problem.fast_accumulation = true;  // as every published recipe does, in the forward pass only
  problem.accumulate = !addend.none();
  GemmProblem biased = problem;
  biased.epilogue = Epilogue::bias;
  GemmOperands with_bias = operands(a, b, out.data(), const_cast<void*>(bias.data()));
  with_bias.c = addend.data();
  if (!bias.none() && gemm_.supports(biased, with_bias)) return gemm_.run(biased, with_bias);
  GemmOperands without = operands(a, b, out.data());
  without.c = addend.data();
  gemm_.run(problem, without);
  if (!bias.none()) bias_gelu(out, bias, Gelu::none, stream());
}

void CudaBackend::eight_bit_backward_input(Tensor dinp, ConstTensor dout, ConstTensor weight,
                                           Grad mode) {
  const int64_t rows = dout.rows(), n = weight.rows(), k = weight.last();
  char* memory = scratch<char>(static_cast<int64_t>(kHeader) + n * k);
  const EightBit a = rounded(memory, weight, DType::f8e4m3, true);
  const EightBit b = rounded_gradient(dout, false);
  GemmProblem problem{.m = k,
                      .n = rows,
                      .k = n,
                      .trans_a = true,
                      .trans_b = false,
                      .lda = n,
                      .ldb = n,
                      .ldd = k,
                      .in = DType::f8e4m3,
                      .out = dinp.dtype()};
  problem.in_b = DType::f8e5m2;
  problem.accumulate = mode == Grad::accumulate;
  gemm_.run(problem, operands(a, b, dinp.data()));
}

void CudaBackend::eight_bit_backward_weight(Tensor dweight, ConstTensor inp, ConstTensor dout,
                                            Grad mode) {
  const int64_t rows = inp.rows(), n = dout.last(), k = inp.last();
  char* memory = scratch<char>(static_cast<int64_t>(kHeader) + rows * k);
  const EightBit a = rounded(memory, inp, DType::f8e4m3, true);
  const EightBit b = rounded_gradient(dout, true);
  GemmProblem problem{.m = k,
                      .n = n,
                      .k = rows,
                      .trans_a = true,
                      .trans_b = false,
                      .lda = rows,
                      .ldb = rows,
                      .ldd = k,
                      .in = DType::f8e4m3,
                      .out = dweight.dtype()};
  problem.in_b = DType::f8e5m2;
  problem.accumulate = mode == Grad::accumulate;
  gemm_.run(problem, operands(a, b, dweight.data()));
}

}  // namespace stretto::cuda
