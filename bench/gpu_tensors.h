// Operands for benchmarks on a GPU, held until forget().
#pragma once

#include <algorithm>
#include <vector>

#include "backend/backend.h"
#include "base/random.h"

namespace stretto {

class GpuTensors {
 public:
  explicit GpuTensors(Backend& backend) : backend_(backend), noise_(kNoise) {
    const CounterRng rng(7, 1);
    for (size_t i = 0; i < kNoise; ++i) noise_[i] = rng.normal(i);
  }

  Tensor zeros(DType type, Shape shape) {
    const auto bytes = static_cast<size_t>(shape.count()) * dtype_size(type);
    buffers_.push_back(backend_.allocate(bytes, "benchmark"));
    Tensor t(buffers_.back().data(), type, shape);
    backend_.fill_zero(t);
    return t;
  }
  // Never zeros in a product: those draw less power, and so run faster than a model's values.
  Tensor random(Shape shape, float scale = 1) {
    Tensor t = zeros(DType::bf16, shape);
    std::vector<bf16_t> values(kNoise);
    std::transform(noise_.begin(), noise_.end(), values.begin(),
                   [&](float x) { return to_bf16(scale * x); });
    for (int64_t at = 0; at < t.count(); at += kNoise) {
      const int64_t end = std::min<int64_t>(t.count(), at + kNoise);
      backend_.copy_from_host(t.slice(at, end), values.data());
    }
    return t;
  }
  Tensor tokens(Shape shape, int64_t words) {
    Tensor t = zeros(DType::i32, shape);
    std::vector<int32_t> host(static_cast<size_t>(shape.count()));
    const CounterRng rng(7, 2);
    for (size_t i = 0; i < host.size(); ++i) {
      host[i] = static_cast<int32_t>(rng.bits(i) % static_cast<uint64_t>(words));
    }
    backend_.copy_from_host(t, host.data());
    return t;
  }
  void forget() {
    backend_.synchronize();
    buffers_.clear();
  }

 protected:
  Backend& backend_;

 private:
  static constexpr size_t kNoise = size_t{1} << 22;
  std::vector<float> noise_;
  std::vector<Buffer> buffers_;
};

}  // namespace stretto
