// AdamW in one pass over the state: clipping, moments, decoupled weight decay, the update and the
// copy in the compute type. The clip factor and the decision to skip the step are read from device
// memory, so the host never waits for the gradient norm.
//
// Values kept only in bf16 are rounded stochastically, with the same bits as the cpu backend: a
// function of (seed, step, what, global index).
#include <cmath>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"
#include "base/random.h"

namespace stretto::cuda {
namespace {

constexpr int V = 8;  // elements per thread: 16 bytes of bf16, twice 16 of f32

struct Keys {
  uint32_t first, second;
};

struct Constants {
  float decay, rest1, beta2, rest2, step_size, root_correction, eps;
  uint64_t first_index;
  Keys keys[3][2];  // of weight, m, v; for this multiple of 2^32 of the index and for the next
};

__device__ uint32_t mix(uint32_t x, uint32_t multiplier) {
  x = (x ^ (x >> 16)) * multiplier;
  return x ^ (x >> 15);
}

__device__ uint32_t random_bits(uint64_t index, const Constants& c, int what) {
  const Keys keys = c.keys[what][(index >> 32) - (c.first_index >> 32)];
  const uint32_t r = mix(static_cast<uint32_t>(index) ^ keys.first, 0x7feb352du);
  return mix(r ^ keys.second, 0x846ca68bu) >> 16;
}

// Up with the probability of the part cut off.
__device__ bf16 round_stochastic(float x, uint32_t bits16) {
  const uint32_t bits = __float_as_uint(x);
  const uint32_t rounded = isnan(x) ? (bits >> 16) | 0x40u : (bits + bits16) >> 16;
  return __ushort_as_bfloat16(static_cast<unsigned short>(rounded));
}

// A whole pack moves in 16-byte accesses, anything else element by element.
template <typename T>
__device__ void load(float (&x)[V], const T* p, int count, bool whole) {
  constexpr int kStep = kVector<T> < V ? kVector<T> : V;
  if (whole) {
#pragma unroll
    for (int i = 0; i < V; i += kStep) {
      const auto pack = Pack<T, kStep>::load_streaming(p + i);
#pragma unroll
      for (int j = 0; j < kStep; ++j) x[i + j] = pack[j];
    }
  } else {
    for (int i = 0; i < V; ++i) x[i] = i < count ? as_float(p[i]) : 0.0f;
  }
}

// `what` >= 0: this is the only copy, so bf16 is rounded stochastically.
template <typename T>
__device__ void store(T* p, const float (&x)[V], int count, bool whole, uint64_t index,
                      const Constants& c, int what) {
  constexpr int kStep = kVector<T> < V ? kVector<T> : V;
  Pack<T, kStep> pack[V / kStep];
#pragma unroll
  for (int i = 0; i < V; ++i) {
    if constexpr (std::is_same_v<T, bf16>) {
      pack[i / kStep].value[i % kStep] =
          what >= 0 ? round_stochastic(x[i], random_bits(index + i, c, what)) : from_float<T>(x[i]);
    } else {
      pack[i / kStep].set(i % kStep, x[i]);
    }
  }
  if (whole) {
#pragma unroll
    for (int i = 0; i < V / kStep; ++i) pack[i].store_streaming(p + i * kStep);
  } else {
    for (int i = 0; i < V; ++i) {
      if (i < count) p[i] = pack[i / kStep].value[i % kStep];
    }
  }
}

template <typename W, typename G, typename M>
__global__ void __launch_bounds__(256)
    adamw_kernel(W* weight, float* master, M* m, M* v, const G* grad, const float* control,
                 int64_t count, bool aligned, Constants c) {
  const int64_t at = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (at >= count || control[1] != 0.0f) return;
  const int n = static_cast<int>(min(int64_t{V}, count - at));
  const bool whole = aligned && n == V;
  const float clip = control[0];
  float w[V], g[V], mv[V], vv[V];
  load(g, grad + at, n, whole);
  load(mv, m + at, n, whole);
  load(vv, v + at, n, whole);
  if (master != nullptr) {
    load(w, master + at, n, whole);
  } else {
    load(w, weight + at, n, whole);
  }
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const float gradient = g[i] * clip;
    mv[i] = fmaf(c.rest1, gradient - mv[i], mv[i]);
    vv[i] = fmaf(c.rest2 * gradient, gradient, c.beta2 * vv[i]);
    const float divisor = fmaf(sqrtf(vv[i]), c.root_correction, c.eps);
    w[i] = w[i] * c.decay - c.step_size * (mv[i] / divisor);
  }
  const uint64_t index = c.first_index + at;
  store(m + at, mv, n, whole, index, c, 1);
  store(v + at, vv, n, whole, index, c, 2);
  if (master != nullptr) {
    store(master + at, w, n, whole, index, c, -1);
    store(weight + at, w, n, whole, index, c, -1);
  } else {
    store(weight + at, w, n, whole, index, c, 0);
  }
}

Constants constants_for(const AdamWOptions& options) {
  const auto wide = [](auto x) { return static_cast<double>(x); };
  const double correction1 = 1.0 - std::pow(wide(options.beta1), wide(options.step));
  const double correction2 = 1.0 - std::pow(wide(options.beta2), wide(options.step));
  Constants c{};
  c.decay = static_cast<float>(1.0 - wide(options.lr) * wide(options.weight_decay));
  c.rest1 = static_cast<float>(1.0 - wide(options.beta1));
  c.beta2 = options.beta2;
  c.rest2 = static_cast<float>(1.0 - wide(options.beta2));
  c.step_size = static_cast<float>(wide(options.lr) / correction1);
  c.root_correction = static_cast<float>(1.0 / std::sqrt(correction2));
  c.eps = options.eps;
  c.first_index = options.first_index;
  for (uint64_t what = 0; what < 3; ++what) {
    const CounterRng rng(options.seed, static_cast<uint64_t>(options.step) * 4 + what);
    for (uint64_t next = 0; next < 2; ++next) {
      const uint64_t bits = rng.bits((options.first_index >> 32) + next);
      c.keys[what][next] = {static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits)};
    }
  }
  return c;
}

}  // namespace

void CudaBackend::do_adamw(Tensor weight, Tensor master, Tensor m, Tensor v, ConstTensor grad,
                           ConstTensor control, const AdamWOptions& options) {
  const int64_t count = weight.count();
  if (count == 0) return;
  STRETTO_CHECK(options.step >= 1 && count < (int64_t{1} << 32), "step {}, {} weights",
                options.step, count);
  STRETTO_CHECK(master.none() ? weight.dtype() != DType::f16 : master.dtype() == DType::f32,
                "adamw: weight {} without f32 master", dtype_name(weight.dtype()));
  STRETTO_CHECK(m.dtype() == v.dtype(), "moments {} and {}", dtype_name(m.dtype()),
                dtype_name(v.dtype()));
  const bool own_master = !master.none() && master.data() != weight.data();
  const bool aligned = aligned_to_16(weight.data()) && aligned_to_16(master.data()) &&
                       aligned_to_16(m.data()) && aligned_to_16(v.data()) &&
                       aligned_to_16(grad.data());
  const Constants c = constants_for(options);
  const auto launch = [&](auto w, auto g, auto moment) {
    using W = typename decltype(w)::type;
    using G = typename decltype(g)::type;
    using M = typename decltype(moment)::type;
    adamw_kernel<W, G, M><<<blocks_for(count, 256 * V), 256, 0, stream()>>>(
        data_of<W>(weight), own_master ? data_of<float>(master) : nullptr, data_of<M>(m),
        data_of<M>(v), data_of<G>(grad), data_of<float>(control), count, aligned, c);
  };
  with_float_type(weight.dtype(), [&](auto w) {
    const auto with_moment = [&](auto g) {
      if (m.dtype() == DType::f32) {
        launch(w, g, Type<float>{});
      } else {
        STRETTO_CHECK(m.dtype() == DType::bf16, "moments {}", dtype_name(m.dtype()));
        launch(w, g, Type<bf16>{});
      }
    };
    if (grad.dtype() == DType::f32) {
      with_moment(Type<float>{});
    } else {
      STRETTO_CHECK(grad.dtype() == weight.dtype(), "gradients {} of weights {}",
                    dtype_name(grad.dtype()), dtype_name(weight.dtype()));
      with_moment(w);
    }
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
