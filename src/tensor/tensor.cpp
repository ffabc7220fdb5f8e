#include "tensor/tensor.h"

namespace stretto {

Shape::Shape(std::initializer_list<int64_t> sizes) {
  STRETTO_CHECK(sizes.size() <= kMaxDims, "{} dims", sizes.size());
  for (const int64_t size : sizes) {
    STRETTO_CHECK(size >= 0, "dim of size {}", size);
    sizes_[static_cast<size_t>(dims_++)] = size;
  }
}

int64_t Shape::count() const {
  int64_t n = 1;
  for (int d = 0; d < dims_; ++d) n *= sizes_[static_cast<size_t>(d)];
  return n;
}

std::string Shape::text() const {
  std::string out = "(";
  for (int d = 0; d < dims_; ++d) {
    if (d > 0) out += ", ";
    out += std::to_string(sizes_[static_cast<size_t>(d)]);
  }
  return out + ")";
}

ConstTensor ConstTensor::view(Shape shape) const {
  STRETTO_CHECK(shape.count() == count(), "{} as {}", shape_.text(), shape.text());
  return {data_, type_, shape};
}

ConstTensor ConstTensor::row_range(int64_t begin, int64_t end) const {
  STRETTO_CHECK(0 <= begin && begin <= end && end <= rows(), "[{}, {}) of {} rows", begin, end,
                rows());
  auto* bytes = static_cast<const char*>(data_);
  return {bytes + static_cast<size_t>(begin * last()) * dtype_size(type_),
          type_,
          {end - begin, last()}};
}

ConstTensor ConstTensor::slice(int64_t begin, int64_t end) const {
  STRETTO_CHECK(0 <= begin && begin <= end && end <= count(), "[{}, {}) of {}", begin, end,
                count());
  auto* bytes = static_cast<const char*>(data_);
  return {bytes + static_cast<size_t>(begin) * dtype_size(type_), type_, {end - begin}};
}

Tensor Tensor::view(Shape shape) const {
  const ConstTensor t = ConstTensor::view(shape);
  return {data_, t.dtype(), t.shape()};
}

Tensor Tensor::row_range(int64_t begin, int64_t end) const {
  const ConstTensor t = ConstTensor::row_range(begin, end);
  return {const_cast<void*>(t.data()), t.dtype(), t.shape()};
}

Tensor Tensor::slice(int64_t begin, int64_t end) const {
  const ConstTensor t = ConstTensor::slice(begin, end);
  return {const_cast<void*>(t.data()), t.dtype(), t.shape()};
}

}  // namespace stretto
