// A Buffer owns one allocation of a backend's memory. An Arena hands out labelled, aligned pieces
// of one Buffer, whose size is planned before the first step, so that no step allocates.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "base/ceil_div.h"
#include "tensor/tensor.h"

namespace stretto {

class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, size_t bytes, std::function<void(void*)> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  std::function<void(void*)> release_;
};

// Enough for cache lines, AVX-512 and 16-byte accesses on GPUs.
constexpr size_t kArenaAlignment = 256;

constexpr size_t arena_round(size_t bytes) { return round_up(bytes, kArenaAlignment); }

// Hands out aligned pieces of one buffer, in the order of the calls. They live as long as the
// arena.
class Arena {
 public:
  Arena() = default;
  explicit Arena(Buffer buffer) : buffer_(std::move(buffer)) {}

  // Throws, with the label, if the buffer has no room left.
  Tensor take(const std::string& label, DType type, Shape shape);

  size_t used() const { return used_; }  // bytes; the memory plan must predict this

 private:
  Buffer buffer_;
  size_t used_ = 0;
};

}  // namespace stretto
