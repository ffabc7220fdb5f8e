// Helpers for operator tests: operands rounded to the tested type, outputs filled with NaN and
// followed by guard bytes, comparisons with a tolerance of epsilon times a stated coefficient.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/random.h"
#include "tensor/tensor.h"

namespace stretto::test {

using Values = std::vector<double>;

inline double load_element(const void* data, DType type, int64_t i) {
  switch (type) {
    case DType::f32:
      return static_cast<const float*>(data)[i];
    case DType::f64:
      return static_cast<const double*>(data)[i];
    case DType::bf16:
      return to_float(static_cast<const bf16_t*>(data)[i]);
    case DType::f16:
      return to_float(static_cast<const f16_t*>(data)[i]);
    case DType::f8e4m3:
      return to_float(static_cast<const f8e4m3_t*>(data)[i]);
    case DType::f8e5m2:
      return to_float(static_cast<const f8e5m2_t*>(data)[i]);
    case DType::i32:
      return static_cast<const int32_t*>(data)[i];
    case DType::u16:
      return static_cast<const uint16_t*>(data)[i];
    case DType::u8:
      return static_cast<const uint8_t*>(data)[i];
  }
  return 0;
}

inline void store_element(void* data, DType type, int64_t i, double x) {
  const float f = static_cast<float>(x);
  switch (type) {
    case DType::f32:
      static_cast<float*>(data)[i] = f;
      return;
    case DType::f64:
      static_cast<double*>(data)[i] = x;
      return;
    case DType::bf16:
      static_cast<bf16_t*>(data)[i] = to_bf16(f);
      return;
    case DType::f16:
      static_cast<f16_t*>(data)[i] = to_f16(f);
      return;
    case DType::f8e4m3:
      static_cast<f8e4m3_t*>(data)[i] = to_f8e4m3(f);
      return;
    case DType::f8e5m2:
      static_cast<f8e5m2_t*>(data)[i] = to_f8e5m2(f);
      return;
    case DType::i32:
      static_cast<int32_t*>(data)[i] = static_cast<int32_t>(x);
      return;
    case DType::u16:
      static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(x);
      return;
    case DType::u8:
      static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(x);
      return;
  }
}

// A tensor that owns its bytes, aligned to 64, with guard bytes on both sides. Converts to Tensor,
// so it can be handed to an operator as it is. Copies are deep.
class Operand {
 public:
  Operand() = default;  // "none"
  Operand(DType type, Shape shape) : type_(type), shape_(shape) {
    const size_t bytes = static_cast<size_t>(shape.count()) * dtype_size(type);
    bytes_.assign(bytes + 2 * kGuard + kAlign, kGuardByte);
  }
  Operand(DType type, Shape shape, const Values& values) : Operand(type, shape) { set(values); }

  // Standard normal times `scale`, rounded to the type. Another `stream` gives other values.
  static Operand random(DType type, Shape shape, uint64_t stream, double scale = 1) {
    Operand operand(type, shape);
    const CounterRng rng(20260401, stream);
    for (int64_t i = 0; i < shape.count(); ++i) {
      store_element(operand.data(), type, i, scale * rng.normal(static_cast<uint64_t>(i)));
    }
    return operand;
  }
  // For outputs: an element that the operator does not write stays NaN and fails the comparison.
  static Operand output(DType type, Shape shape) {
    Operand operand(type, shape);
    for (int64_t i = 0; i < shape.count(); ++i) {
      store_element(operand.data(), type, i, std::numeric_limits<double>::quiet_NaN());
    }
    return operand;
  }
  static Operand zeros(DType type, Shape shape) {
    return Operand(type, shape, Values(static_cast<size_t>(shape.count()), 0.0));
  }

  Tensor tensor() const {
    return bytes_.empty() ? Tensor() : Tensor(const_cast<uint8_t*>(data()), type_, shape_);
  }
  operator Tensor() const { return tensor(); }       // NOLINT(google-explicit-constructor)
  operator ConstTensor() const { return tensor(); }  // NOLINT(google-explicit-constructor)

  DType dtype() const { return type_; }
  const Shape& shape() const { return shape_; }
  int64_t count() const { return bytes_.empty() ? 0 : shape_.count(); }

  Values values() const {
    Values out(static_cast<size_t>(count()));
    for (int64_t i = 0; i < count(); ++i)
      out[static_cast<size_t>(i)] = load_element(data(), type_, i);
    return out;
  }
  void set(const Values& values) {
    ASSERT_EQ(static_cast<int64_t>(values.size()), shape_.count());
    for (int64_t i = 0; i < shape_.count(); ++i) {
      store_element(data(), type_, i, values[static_cast<size_t>(i)]);
    }
  }
  // The same elements rounded to another type.
  Operand as(DType type) const { return Operand(type, shape_, values()); }

  bool guards_intact() const {
    const uint8_t* begin = data();
    const size_t size = static_cast<size_t>(count()) * dtype_size(type_);
    const auto is_guard = [](uint8_t byte) { return byte == kGuardByte; };
    return bytes_.empty() || (std::all_of(begin - kGuard, begin, is_guard) &&
                              std::all_of(begin + size, begin + size + kGuard, is_guard));
  }
  bool same_bits(const Operand& other) const {
    const size_t size = static_cast<size_t>(count()) * dtype_size(type_);
    return count() == other.count() && type_ == other.type_ &&
           (size == 0 || std::memcmp(data(), other.data(), size) == 0);
  }

  Operand(const Operand& other) : Operand() { *this = other; }
  Operand& operator=(const Operand& other) {
    if (this == &other) return *this;
    type_ = other.type_;
    shape_ = other.shape_;
    bytes_.assign(other.bytes_.size(), kGuardByte);
    if (!bytes_.empty()) {
      std::memcpy(data(), other.data(), static_cast<size_t>(count()) * dtype_size(type_));
    }
    return *this;
  }
  Operand(Operand&&) noexcept = default;
  Operand& operator=(Operand&&) noexcept = default;
  ~Operand() = default;

 private:
  static constexpr size_t kAlign = 64;
  static constexpr size_t kGuard = 128;
  static constexpr uint8_t kGuardByte = 0xa5;

  const uint8_t* data() const {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data()) + kGuard;
    return bytes_.data() + kGuard + (kAlign - address % kAlign) % kAlign;
  }
  uint8_t* data() { return const_cast<uint8_t*>(std::as_const(*this).data()); }

  std::vector<uint8_t> bytes_;
  DType type_ = DType::f32;
  Shape shape_;
};

inline double max_abs(const Values& values) {
  double most = 0;
  for (double x : values) most = std::max(most, std::abs(x));
  return most;
}

// |actual - expected| <= coefficient * epsilon(type) * scale, for every element; `scale` is the
// largest magnitude expected unless given (cancelling sums: give the sum of magnitudes). `type` is
// the least precise type that took part. Also checks the guards.
inline ::testing::AssertionResult close(const Operand& actual, const Values& expected, DType type,
                                        double coefficient, double scale = 0) {
  if (!actual.guards_intact()) return ::testing::AssertionFailure() << "guard bytes overwritten";
  const Values got = actual.values();
  if (got.size() != expected.size()) {
    return ::testing::AssertionFailure() << got.size() << " elements, not " << expected.size();
  }
  if (scale == 0) scale = max_abs(expected);
  const double tolerance = coefficient * dtype_epsilon(type) * scale;
  double worst = -1;
  size_t at = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - expected[i]);
    if (!(error <= tolerance) && !(error <= worst)) {
      worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
      at = i;
    }
  }
  if (worst < 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "element " << at << " of shape " << actual.shape().text() << " is " << got[at]
         << ", expected " << expected[at] << "; error " << std::abs(got[at] - expected[at]) << " > "
         << tolerance << " = " << coefficient << " x epsilon(" << dtype_name(type) << ") x "
         << scale;
}

// Gradient of the scalar function loss(x) by central differences, one element at a time.
template <typename Loss>
Values central_differences(Loss&& loss, Values x, double h = 1e-5) {
  Values gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double saved = x[i];
    x[i] = saved + h;
    const double above = loss(x);
    x[i] = saved - h;
    const double below = loss(x);
    x[i] = saved;
    gradient[i] = (above - below) / (2 * h);
  }
  return gradient;
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Reference against reference, both in double: relative to the largest magnitude.
inline ::testing::AssertionResult close_values(const Values& actual, const Values& expected,
                                               double relative) {
  if (actual.size() != expected.size()) return ::testing::AssertionFailure() << "sizes differ";
  const double tolerance = relative * std::max(max_abs(expected), 1e-300);
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!(std::abs(actual[i] - expected[i]) <= tolerance)) {
      return ::testing::AssertionFailure()
             << "element " << i << ": " << actual[i] << ", expected " << expected[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace stretto::test
