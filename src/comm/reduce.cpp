#include "comm/reduce.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace stretto {
namespace {

constexpr int64_t kTile = 1024;  // elements; the accumulators of a tile fit into the L1 cache

float load(float x) { return x; }
double load(double x) { return x; }
int32_t load(int32_t x) { return x; }
float load(bf16_t x) { return to_float(x); }
float load(f16_t x) { return to_float(x); }

void store(float& out, float x) { out = x; }
void store(double& out, double x) { out = x; }
void store(int32_t& out, int32_t x) { out = x; }
void store(bf16_t& out, float x) { out = to_bf16(x); }
void store(f16_t& out, float x) { out = to_f16(x); }

// Wraps around, where a signed sum would be undefined on overflow.
int32_t add(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
template <typename T>
T add(T a, T b) {
  return a + b;
}

// NaN if either operand is NaN, so that a NaN on any rank is seen by all.
template <typename T>
T larger(T a, T b) {
  return (a > b || a != a) ? a : b;
}

template <typename T, typename Combine>
void reduce_tiles(void* out, const void* const* in, int n, int64_t count, Combine combine) {
  using Acc = decltype(load(T{}));
  Acc acc[kTile];
  for (int64_t begin = 0; begin < count; begin += kTile) {
    const int64_t len = std::min(kTile, count - begin);
    const T* first = static_cast<const T*>(in[0]) + begin;
    for (int64_t i = 0; i < len; ++i) acc[i] = load(first[i]);
    for (int r = 1; r < n; ++r) {
      const T* next = static_cast<const T*>(in[r]) + begin;
      for (int64_t i = 0; i < len; ++i) acc[i] = combine(acc[i], load(next[i]));
    }
    T* to = static_cast<T*>(out) + begin;
    for (int64_t i = 0; i < len; ++i) store(to[i], acc[i]);
  }
}

template <typename T>
void reduce_as(ReduceOp op, void* out, const void* const* in, int n, int64_t count) {
  using Acc = decltype(load(T{}));
  if (op == ReduceOp::sum) {
    reduce_tiles<T>(out, in, n, count, [](Acc a, Acc b) { return add(a, b); });
  } else {
    reduce_tiles<T>(out, in, n, count, [](Acc a, Acc b) { return larger(a, b); });
  }
}

}  // namespace

void ordered_reduce(DType type, ReduceOp op, void* out, const void* const* in, int n,
                    int64_t count) {
  switch (type) {
    case DType::f32:
      return reduce_as<float>(op, out, in, n, count);
    case DType::f64:
      return reduce_as<double>(op, out, in, n, count);
    case DType::bf16:
      return reduce_as<bf16_t>(op, out, in, n, count);
    case DType::f16:
      return reduce_as<f16_t>(op, out, in, n, count);
    case DType::i32:
      return reduce_as<int32_t>(op, out, in, n, count);
    default:
      STRETTO_CHECK(false, "no sums of {}", dtype_name(type));
  }
}

}  // namespace stretto
