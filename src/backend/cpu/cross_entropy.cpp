// Cross-entropy over a vocabulary, which may be cut over ranks: row statistics, loss, and gradient
// in place.
//
// The forward pass reads a row once, in chunks that stay in the first-level cache while first their
// maximum and then their sum of exponentials is computed. The running sum is rescaled when the
// maximum grows. Chunk sums are added in double.
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/pieces.h"
#include "backend/cpu/targets.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/cross_entropy.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
#include "backend/cpu/simd_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

constexpr size_t kChunk = 2048;

template <class D, typename T>
HWY_INLINE float max_of(D d, const T* x, size_t n) {
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto m0 = lowest, m1 = lowest;
  const size_t step = hn::Lanes(d);
  size_t i = 0;
  for (; i + 2 * step <= n; i += 2 * step) {
    m0 = hn::Max(m0, load(d, x + i));
    m1 = hn::Max(m1, load(d, x + i + step));
  }
  for (; i < n; i += step) {
    const size_t left = std::min(step, n - i);
    m0 = hn::Max(m0, hn::IfThenElse(hn::FirstN(d, left), load(d, x + i, Part{left}), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(m0, m1)));
}

// log of the sum of e^x. A NaN anywhere gives NaN; no elements (all padding) give -infinity.
template <typename T>
float row_lse(const T* x, size_t n) {
  const F32 d;
  double sum = 0;
  float top = -std::numeric_limits<float>::infinity();
  for (size_t begin = 0; begin < n; begin += kChunk) {
    const size_t count = std::min(kChunk, n - begin);
    const T* chunk = x + begin;
    const float chunk_top = max_of(d, chunk, count);
    if (chunk_top > top) {
      sum *= std::exp(static_cast<double>(top) - static_cast<double>(chunk_top));
      top = chunk_top;
    }
    // If all so far is -infinity, any finite reference gives the right sum, 0.
    const auto reference = hn::Set(d, std::isinf(top) && top < 0 ? 0.0f : top);
    sum += static_cast<double>(sum_lanes(
        d, count, STRETTO_LANES {
          return only(d, exp_vec(d, hn::Sub(load(d, chunk + i, lanes), reference)), lanes);
        }));
  }
  if (sum == 0) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(static_cast<double>(top) + std::log(sum));
}

void cross_entropy_forward_row(float* lse, const void* logits, DType type, size_t columns) {
  with_float_type(
      type, [&](auto t) { *lse = row_lse(static_cast<const decltype(t)*>(logits), columns); });
}

template <typename T>
void backward_row(T* x, float lse, float scale, size_t columns) {
  const F32 d;
  const auto lse_v = hn::Set(d, lse);
  const auto scale_v = hn::Set(d, scale);
  for_lanes(
      d, columns, STRETTO_LANES {
        const auto p = exp_vec(d, hn::Sub(load(d, static_cast<const T*>(x) + i, lanes), lse_v));
        store(d, hn::Mul(p, scale_v), x + i, lanes);
      });
}

// target < 0: the target's column is in another shard. `width` includes padding columns.
void cross_entropy_backward_row(void* logits, DType type, float lse, float scale, int64_t target,
                                int64_t columns, int64_t width) {
  with_float_type(type, [&](auto t) {
    using T = decltype(t);
    T* x = static_cast<T*>(logits);
    const float target_logit = target < 0 ? 0 : to_float(x[target]);
    backward_row(x, lse, scale, static_cast<size_t>(columns));
    if (target >= 0) {
      const float dlogit = (std::exp(target_logit - lse) - 1.0f) * scale;
      store(hn::CappedTag<float, 1>(), hn::Set(hn::CappedTag<float, 1>(), dlogit), x + target);
    }
    if (width > columns) {
      std::memset(static_cast<void*>(x + columns), 0,
                  static_cast<size_t>(width - columns) * sizeof(T));
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {
namespace {

// Columns of a shard that are words; the others are padding.
int64_t real_columns(int64_t width, VocabRange vocab) {
  return std::clamp<int64_t>(vocab.size - vocab.begin, 0, width);
}

// Column of the target in this shard, or -1.
int64_t target_column(int32_t target, int64_t columns, VocabRange vocab) {
  const int64_t column = target - vocab.begin;
  return target >= 0 && column >= 0 && column < columns ? column : -1;
}

float element(ConstTensor t, int64_t index) {
  switch (t.dtype()) {
    case DType::f32:
      return t.as<float>()[index];
    case DType::bf16:
      return to_float(t.as<bf16_t>()[index]);
    default:
      return to_float(t.as<f16_t>()[index]);
  }
}

char* row_of(ConstTensor t, int64_t row) {
  return static_cast<char*>(const_cast<void*>(t.data())) +
         static_cast<size_t>(row * t.last()) * dtype_size(t.dtype());
}

}  // namespace

HWY_EXPORT(cross_entropy_forward_row);
HWY_EXPORT(cross_entropy_backward_row);

void CpuBackend::do_cross_entropy_forward(Tensor lse, Tensor target, ConstTensor logits,
                                          ConstTensor targets, VocabRange vocab) {
  check_float_types(logits);
  const int64_t width = logits.last(), columns = real_columns(width, vocab);
  for_ranges(threads_, logits.rows(), rows_per_piece(width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      HWY_DYNAMIC_DISPATCH(cross_entropy_forward_row)
      (lse.as<float>() + row, row_of(logits, row), logits.dtype(), static_cast<size_t>(columns));
      const int64_t at = target_column(targets.as<int32_t>()[row], columns, vocab);
      target.as<float>()[row] = at < 0 ? 0.0f : element(logits, row * width + at);
    }
  });
}

void CpuBackend::do_combine_lse(Tensor lse, ConstTensor parts) {
  const int64_t rows = lse.count(), shards = rows == 0 ? 0 : parts.count() / rows;
  const float* part = parts.as<float>();
  for_ranges(threads_, rows, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float top = -std::numeric_limits<float>::infinity();
      for (int64_t s = 0; s < shards; ++s) top = std::max(top, part[s * rows + row]);
      const double reference = std::isinf(top) && top < 0 ? 0.0 : static_cast<double>(top);
      double sum = 0;
      for (int64_t s = 0; s < shards; ++s) {
        sum += std::exp(static_cast<double>(part[s * rows + row]) - reference);
      }
      lse.as<float>()[row] = static_cast<float>(reference + std::log(sum));
    }
  });
}

void CpuBackend::do_cross_entropy_loss(Tensor loss_sum, ConstTensor lse, ConstTensor target,
                                       ConstTensor targets) {
  double sum = 0;
  for (int64_t row = 0; row < lse.count(); ++row) {
    if (targets.as<int32_t>()[row] < 0) continue;
    sum += static_cast<double>(lse.as<float>()[row]) - static_cast<double>(target.as<float>()[row]);
  }
  loss_sum.as<double>()[0] += sum;
}

void CpuBackend::do_cross_entropy_backward(Tensor logits, ConstTensor lse, ConstTensor targets,
                                           ConstTensor scale, VocabRange vocab) {
  check_float_types(logits);
  const int64_t width = logits.last(), columns = real_columns(width, vocab);
  const float scale_value = scale.as<float>()[0];
  for_ranges(threads_, logits.rows(), rows_per_piece(width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int32_t target = targets.as<int32_t>()[row];
      HWY_DYNAMIC_DISPATCH(cross_entropy_backward_row)
      (row_of(logits, row), logits.dtype(), lse.as<float>()[row], scale_value,
       target_column(target, columns, vocab), target < 0 ? 0 : columns, width);
    }
  });
}

}  // namespace stretto
#endif  // HWY_ONCE
