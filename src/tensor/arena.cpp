#include "tensor/arena.h"

#include "base/units.h"

namespace stretto {

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      release_(std::exchange(other.release_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(release_, other.release_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr && release_) release_(data_);
}

Tensor Arena::take(const std::string& label, DType type, Shape shape) {
  const size_t bytes = arena_round(static_cast<size_t>(shape.count()) * dtype_size(type));
  STRETTO_CHECK(used_ + bytes <= buffer_.bytes(),
                "arena: '{}' needs {} but {} of {} are in use: the memory plan is wrong", label,
                format_bytes(static_cast<double>(bytes)), format_bytes(static_cast<double>(used_)),
                format_bytes(static_cast<double>(buffer_.bytes())));
  auto* data = static_cast<char*>(buffer_.data()) + used_;
  used_ += bytes;
  return {data, type, shape};
}

}  // namespace stretto
