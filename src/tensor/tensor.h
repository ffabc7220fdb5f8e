// A cheap, non-owning view of contiguous row-major elements whose type is known at run time. Memory
// belongs to a Buffer or an Arena, never to a Tensor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/dtype.h"
#include "base/error.h"

namespace stretto {

class Shape {
 public:
  static constexpr int kMaxDims = 5;

  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes);  // NOLINT(google-explicit-constructor)

  int dims() const { return dims_; }
  int64_t operator[](int dim) const { return sizes_[static_cast<size_t>(dim)]; }
  int64_t last() const { return dims_ == 0 ? 1 : sizes_[static_cast<size_t>(dims_ - 1)]; }
  int64_t count() const;                                               // number of elements
  int64_t rows() const { return last() == 0 ? 0 : count() / last(); }  // all dims but the last
  bool operator==(const Shape& other) const = default;
  std::string text() const;  // "(4, 1024, 768)"

 private:
  std::array<int64_t, kMaxDims> sizes_{};
  int dims_ = 0;
};

// A view of constant elements. A default-constructed one is "none", as used for optional operands.
class ConstTensor {
 public:
  ConstTensor() = default;
  ConstTensor(const void* data, DType type, Shape shape)
      : data_(const_cast<void*>(data)), type_(type), shape_(shape) {}

  bool none() const { return data_ == nullptr; }
  explicit operator bool() const { return data_ != nullptr; }
  DType dtype() const { return type_; }
  const Shape& shape() const { return shape_; }
  int64_t count() const { return shape_.count(); }
  int64_t rows() const { return shape_.rows(); }
  int64_t last() const { return shape_.last(); }
  size_t bytes() const { return static_cast<size_t>(count()) * dtype_size(type_); }

  const void* data() const { return data_; }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }

  ConstTensor view(Shape shape) const;                      // same elements, another shape
  ConstTensor row_range(int64_t begin, int64_t end) const;  // rows [begin, end) as (n, last)
  ConstTensor slice(int64_t begin, int64_t end) const;      // elements [begin, end) as (n)

 protected:
  void* data_ = nullptr;
  DType type_ = DType::f32;
  Shape shape_;
};

class Tensor : public ConstTensor {
 public:
  Tensor() = default;
  Tensor(void* data, DType type, Shape shape) : ConstTensor(data, type, shape) {}

  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

  Tensor view(Shape shape) const;
  Tensor row_range(int64_t begin, int64_t end) const;
  Tensor slice(int64_t begin, int64_t end) const;
};

}  // namespace stretto
