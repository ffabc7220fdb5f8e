// Matrix products of the CPU backend: C = [C +] A B with a fused epilogue, through one of several
// implementations that tests and benchmarks can name. All of them give results that depend on the
// operands and the shape only: not on the number of threads, not on timing.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/gelu.h"
#include "tensor/arena.h"

namespace stretto {

// A row-major matrix, or the transpose of one. `stride` counts elements between stored rows.
struct ConstMatrix {
  const void* data = nullptr;
  DType type = DType::f32;
  int64_t stride = 0;
  bool transposed = false;
};

struct Matrix {
  void* data = nullptr;
  DType type = DType::f32;
  int64_t stride = 0;
};

// What happens to a finished element x of A B at (row, column), in this order, all in f32:
//   x += bias[column]; pre[row, column] = x and x = gelu(x); x *= gelu'(grad_pre[row, column]).
// Then C = x or C += x. Null pointers leave a part out, as no gelu does; grad_pre takes its place.
// pre and grad_pre have C's type and stride.
struct Epilogue {
  const void* bias = nullptr;
  DType bias_type = DType::f32;
  Gelu gelu = Gelu::none;
  void* pre = nullptr;
  const void* grad_pre = nullptr;

  bool empty() const { return bias == nullptr && gelu == Gelu::none; }
};

struct GemmArgs {
  int64_t m = 0, n = 0, k = 0;
  ConstMatrix a;  // (m, k)
  ConstMatrix b;  // (k, n)
  Matrix c;       // (m, n): f32, bf16 or f16
  bool accumulate = false;
  Epilogue epilogue;
};

enum class GemmChoice { automatic, openblas, onednn, amx, own, dot };

// Scratch memory: what the plan gave, or, where that is too small, a buffer that grows to the
// largest need and then stays. Either way no allocation inside a step.
class Scratch {
 public:
  void use(Tensor planned);
  // At least `bytes`, aligned to 64. Contents are undefined; earlier pointers become invalid.
  void* bytes(size_t bytes);
  float* floats(int64_t count) {
    return static_cast<float*>(this->bytes(static_cast<size_t>(count) * sizeof(float)));
  }
  size_t most() const { return most_; }  // the largest request since use()
  size_t beyond() const { return buffer_.bytes(); }

 private:
  Tensor planned_;
  Buffer buffer_;
  size_t most_ = 0;
};

// What a caller of gemm() keeps between calls: one per backend, never shared by two at once.
struct GemmContext {
  int threads = 1;
  Scratch shared;               // what all threads use
  std::vector<Scratch> worker;  // one per thread

  explicit GemmContext(int thread_count) : threads(thread_count), worker(thread_count) {}
};

void gemm(const GemmArgs& args, GemmContext& context, GemmChoice choice = GemmChoice::automatic);

// Bytes of scratch that the automatic choice takes: for all threads together, and per thread.
struct GemmScratch {
  int64_t shared = 0;
  int64_t worker = 0;
};
GemmScratch gemm_scratch(const GemmArgs& args, int threads);

// The implementations of this build, by name; "automatic" is not among them.
struct GemmImplementation {
  const char* name;
  GemmChoice choice;
  bool (*supports)(const GemmArgs& args);
  void (*run)(const GemmArgs& args, GemmContext& context);
};
std::span<const GemmImplementation> gemm_implementations();
GemmChoice choose_gemm(const GemmArgs& args);
bool has_bf16_units();  // and this build uses them; else bf16 is multiplied as f32

// Reads `count` elements of any float type as f32, and back, rounding to nearest.
void load_floats(float* dst, const void* src, DType type, int64_t count);
void store_floats(void* dst, DType type, const float* src, int64_t count);

}  // namespace stretto
