// Matrix products of the CPU backend: C = [C +] A B with a fused epilogue, by one of several
// implementations, which tests and benchmarks can select by name. The results of each depend only
// on the operands and the shape, not on the number of threads or on timing.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/gelu.h"
#include "tensor/arena.h"

namespace stretto {

// A row-major matrix, or the transpose of one. `stride`: elements from one stored row to the next.
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

// What is done with a finished element x of A B at (row, column), in this order, all in f32: x +=
// bias[column]; pre[row, column] = x and x = gelu(x); x *= gelu'(grad_pre[row, column]). Then C = x
// or C += x. A null pointer leaves its part out. So does Gelu::none, in whose place grad_pre may be
// used. pre and grad_pre have C's type and stride.
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

// Scratch memory: what the plan provides or, if that is too small, a buffer that grows to the
// largest request and then stays. So there is no allocation inside a step.
class Scratch {
 public:
  void use(Tensor planned);
  // Returns at least `bytes`, aligned to 64. Contents are undefined; earlier pointers become
  // invalid.
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

// What a caller of gemm() keeps from call to call: one per backend, never used by two calls at
// once.
struct GemmContext {
  int threads = 1;
  Scratch shared;               // what all threads use
  std::vector<Scratch> worker;  // one per thread

  explicit GemmContext(int thread_count) : threads(thread_count), worker(thread_count) {}
};

void gemm(const GemmArgs& args, GemmContext& context, GemmChoice choice = GemmChoice::automatic);

// Bytes of scratch memory that the automatic choice needs: for all threads together, and per
// thread.
struct GemmScratch {
  int64_t shared = 0;
  int64_t worker = 0;
};
GemmScratch gemm_scratch(const GemmArgs& args, int threads);

// The implementations of this build, by name, without "automatic".
struct GemmImplementation {
  const char* name;
  GemmChoice choice;
  bool (*supports)(const GemmArgs& args);
  void (*run)(const GemmArgs& args, GemmContext& context);
};
std::span<const GemmImplementation> gemm_implementations();
GemmChoice choose_gemm(const GemmArgs& args);
bool has_bf16_units();  // and this build uses them; otherwise bf16 is multiplied as f32

// Reads `count` elements of any float type as f32, and back, rounding to nearest.
void load_floats(float* dst, const void* src, DType type, int64_t count);
void store_floats(void* dst, DType type, const float* src, int64_t count);

}  // namespace stretto
