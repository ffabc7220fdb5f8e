// Matrix products with 8-bit operands (amp_fp8): inputs and weights in e4m3 (more mantissa), output
// gradients in e5m2 (more range), one scale per tensor found anew at every use, f32 accumulation.
// Results, weights, biases and everything that is no matrix product of a layer stay as they are.
//
// Hopper multiplies 8-bit matrices only along their contiguous dim, so the gradients need
// transposed copies; they are made in the pass that rounds.
#include "backend/cuda/column_sum.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/quantise.h"

namespace stretto::cuda {
namespace {

// Before the operands: amax and inverse scale of a and b. cuBLASLt refuses scales that are not
// aligned to 16 bytes, at launch only.
constexpr int64_t kHeader = 256;
constexpr int kApart = 16;  // floats

}  // namespace

// Scratch memory of one product: two rounded operands behind their scales.
struct CudaBackend::EightBit {
  float* scales;  // amax a, amax b, inverse a, inverse b; kApart from each other
  char* a;
  char* b;

  float* amax(int which) const { return scales + which * kApart; }
  float* inverse(int which) const { return scales + (2 + which) * kApart; }
  GemmOperands operands(void* d, void* bias = nullptr) const {
    GemmOperands o{a, b, d, bias};
    o.a_scale = inverse(0);
    o.b_scale = inverse(1);
    return o;
  }
};

bool CudaBackend::eight_bit_fits(int64_t rows, int64_t n, int64_t k, DType type) const {
  const bool able = properties_.major > 8 || (properties_.major == 8 && properties_.minor >= 9);
  return eight_bit_ && able && type == DType::bf16 && rows % 16 == 0 && n % 16 == 0 &&
         k % 16 == 0 && rows > 0;
}

CudaBackend::EightBit CudaBackend::eight_bit_scratch(int64_t a_bytes, int64_t b_bytes) {
  const auto a_size = static_cast<int64_t>(arena_round(static_cast<size_t>(a_bytes)));
  char* memory = scratch<char>(kHeader + a_size + b_bytes);
  return {reinterpret_cast<float*>(memory), memory + kHeader, memory + kHeader + a_size};
}

void CudaBackend::eight_bit_forward(Tensor out, ConstTensor inp, ConstTensor weight,
                                    ConstTensor bias) {
  const int64_t rows = inp.rows(), n = weight.rows(), k = weight.last();
  const EightBit s = eight_bit_scratch(n * k, rows * k);
  quantise(s.a, nullptr, s.amax(0), s.inverse(0), weight, DType::f8e4m3, stream());
  quantise(s.b, nullptr, s.amax(1), s.inverse(1), inp, DType::f8e4m3, stream());
  GemmProblem problem{.m = n,
                      .n = rows,
                      .k = k,
                      .trans_a = true,
                      .trans_b = false,
                      .lda = k,
                      .ldb = k,
                      .ldd = n,
                      .in = DType::f8e4m3,
                      .out = out.dtype()};
  problem.fast_accumulation = true;  // as every published recipe does, in the forward pass only
  GemmProblem biased = problem;
  biased.epilogue = Epilogue::bias;
  const GemmOperands operands = s.operands(out.data(), const_cast<void*>(bias.data()));
  if (!bias.none() && gemm_.supports(biased, operands)) return gemm_.run(biased, operands);
  gemm_.run(problem, s.operands(out.data()));
  if (!bias.none()) bias_gelu(out, bias, false, stream());
}

void CudaBackend::eight_bit_backward_input(Tensor dinp, ConstTensor dout, ConstTensor weight,
                                           Grad mode) {
  const int64_t rows = dout.rows(), n = weight.rows(), k = weight.last();
  const EightBit s = eight_bit_scratch(n * k, rows * n);
  quantise(nullptr, s.a, s.amax(0), s.inverse(0), weight, DType::f8e4m3, stream());
  quantise(s.b, nullptr, s.amax(1), s.inverse(1), dout, DType::f8e5m2, stream());
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
  gemm_.run(problem, s.operands(dinp.data()));
}

void CudaBackend::eight_bit_backward_weight(Tensor dweight, ConstTensor inp, ConstTensor dout,
                                            Grad mode) {
  const int64_t rows = inp.rows(), n = dout.last(), k = inp.last();
  const EightBit s = eight_bit_scratch(rows * k, rows * n);
  quantise(nullptr, s.a, s.amax(0), s.inverse(0), inp, DType::f8e4m3, stream());
  quantise(nullptr, s.b, s.amax(1), s.inverse(1), dout, DType::f8e5m2, stream());
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
  gemm_.run(problem, s.operands(dweight.data()));
}

}  // namespace stretto::cuda
