// AdamW in one launch and one pass over the state: clipping, moments, decoupled weight decay, the
// update and the copy in the compute type. The clip factor and the decision to skip the step are
// read from device memory, so the host never waits for the gradient norm.
//
// Parameters come in stretches; a table of them lies in device memory, and each block finds its own
// by the number of its first block.
//
// Values kept only in bf16 are rounded stochastically, with the same bits as the cpu backend: a
// function of (seed, step, what, global index).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cuda/adamw.cuh"
#include "backend/cuda/cuda_backend.h"
#include "base/random.h"

namespace stretto::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kAtOnce = 2;  // packs of a thread whose loads are in flight together
constexpr int V = kPack;

// Packs of a thread, before another block takes over: with random bits to draw, as many as make
// their keys worth finding.
template <typename M, bool kMaster>
constexpr int kPacks = (kMaster && std::is_same_v<M, float>) ? kAtOnce : 8;

// One stretch, as the kernel sees it. `first_block`: blocks of the stretches before.
struct Stretch {
  void* weight;
  void* master;  // null: weight is the only copy
  void* m;
  void* v;
  const void* grad;
  int64_t count;
  uint64_t first_index;
  int64_t first_block;
  int32_t decay;
  int32_t aligned;
};

// A whole pack moves in one access, anything else element by element.
template <typename T>
__device__ void load(Pack<T, V>& pack, const T* p, int count, bool whole) {
  if (whole) {
    pack = Pack<T, V>::load_streaming(p);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) pack.value[i] = i < count ? p[i] : T{};
  }
}

template <typename T>
__device__ void store(T* p, const Pack<T, V>& pack, int count, bool whole) {
  if (whole) {
    pack.store_streaming(p);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (i < count) p[i] = pack.value[i];
    }
  }
}

// `what` >= 0: this is the only copy, so bf16 is rounded stochastically.
template <typename T>
__device__ void store(T* p, const float (&x)[V], int count, bool whole, uint64_t index,
                      const Draws& draws, int what) {
  Pack<T, V> pack;
  if constexpr (std::is_same_v<T, bf16>) {
    if (what >= 0) pack = draws(x, index, what);
  }
  if (!std::is_same_v<T, bf16> || what < 0) {
#pragma unroll
    for (int i = 0; i < V; ++i) pack.set(i, x[i]);
  }
  store(p, pack, count, whole);
}

// What stands beside weights of type W where they have a master: of bf16 its lower half, or all.
template <typename W>
using Master = std::conditional_t<std::is_same_v<W, bf16>, uint16_t, float>;

template <typename W, typename G, typename M, bool kMaster>
struct Element {  // one pack of everything
  static constexpr bool kSplit = kMaster && std::is_same_v<W, bf16>;
  static constexpr bool kReadsWeight = !kMaster || kSplit;
  Pack<G, V> g;
  Pack<M, V> m, v;
  Pack<W, V> w;
  Pack<Master<W>, V> master;

  __device__ __forceinline__ float weight(int i) const {
    if constexpr (kSplit) {
      return join(w.value[i], master.value[i]);
    } else if constexpr (kMaster) {
      return master.value[i];
    } else {
      return w[i];
    }
  }
};

__device__ const Stretch& find_stretch(const Stretch* table, int count, int64_t block) {
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table[middle].first_block <= block) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return table[low];
}

struct Place {
  int64_t at;
  int count;   // elements of the pack that there are; none or fewer: past the end
  bool whole;  // can be moved in one access
};

__device__ Place place_of(const Stretch& s, int64_t begin, int pack) {
  const int64_t at = begin + (int64_t{pack} * kThreads + threadIdx.x) * V;
  const int count = static_cast<int>(max(int64_t{0}, min(int64_t{V}, s.count - at)));
  return {at, count, s.aligned != 0 && count == V};
}

// A whole block of pure bf16, 16 bytes at a time and without a question per element: instructions,
// not memory, would bound it otherwise.
__device__ __forceinline__ void pure_block(const Stretch& s, int64_t begin, float clip, float decay,
                                           const AdamWConstants& c, const Draws& draws) {
  constexpr int N = 8, kRounds = V * kPacks<bf16, false> / N;
  const int64_t at = begin + threadIdx.x * N;
  const auto low = static_cast<uint32_t>(s.first_index + static_cast<uint64_t>(at));
  auto* grad = static_cast<const bf16*>(s.grad) + at;
  auto* weight = static_cast<bf16*>(s.weight) + at;
  auto* moment1 = static_cast<bf16*>(s.m) + at;
  auto* moment2 = static_cast<bf16*>(s.v) + at;
  using Packed = Pack<bf16, N>;
#pragma unroll 1
  for (int first = 0; first < kRounds; first += kAtOnce) {
    Packed g[kAtOnce], w[kAtOnce], m[kAtOnce], v[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int offset = (first + k) * kThreads * N;
      g[k] = Packed::load_streaming(grad + offset);
      m[k] = Packed::load_streaming(moment1 + offset);
      v[k] = Packed::load_streaming(moment2 + offset);
      w[k] = Packed::load_streaming(weight + offset);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int offset = (first + k) * kThreads * N;
#pragma unroll
      for (int half = 0; half < N; half += 4) {
        float x[3][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int e = half + i;
          const Moved moved = update(w[k][e], m[k][e], v[k][e], g[k][e], clip, decay, c);
          x[0][i] = moved.w;
          x[1][i] = moved.m;
          x[2][i] = moved.v;
        }
        // A moment that is not a number makes the weight one too.
        if (isnan((x[0][0] + x[0][1]) + (x[0][2] + x[0][3]))) {
#pragma unroll
          for (int i = 0; i < 12; ++i) x[i / 4][i % 4] = without_low_bits_if_nan(x[i / 4][i % 4]);
        }
        Packed* const packs[3] = {&w[k], &m[k], &v[k]};
#pragma unroll
        for (int what = 0; what < 3; ++what) {
          const FourDraws four = four_draws(low + offset + half, draws.keys[what]);
          const uint2 words = round_four(x[what][0], x[what][1], x[what][2], x[what][3], four);
          memcpy(&packs[what]->value[half], &words, sizeof(words));
        }
      }
      m[k].store_streaming(moment1 + offset);
      v[k].store_streaming(moment2 + offset);
      w[k].store_streaming(weight + offset);
    }
  }
}

// kMaster: weights have a master, which is what is updated; else they are the only copy.
template <typename W, typename G, typename M, bool kMaster>
__global__ void __launch_bounds__(kThreads, sizeof(M) == 2 ? 3
                                            : kMaster      ? 4
                                                           : 2)
    adamw_kernel(const Stretch* table, int stretches, const float* control,
                 const __grid_constant__ AdamWConstants c) {
  if (control[1] != 0.0f) return;
  const Stretch s = find_stretch(table, stretches, blockIdx.x);
  const float clip = control[0], decay = s.decay != 0 ? c.decay : 1.0f;
  constexpr int64_t kBlock = int64_t{kThreads} * V * kPacks<M, kMaster>;
  const int64_t begin = (int64_t(blockIdx.x) - s.first_block) * kBlock;
  const uint64_t first_index = s.first_index + static_cast<uint64_t>(begin);
  const auto last = static_cast<uint64_t>(min(kBlock, s.count - begin) - 1);
  const Draws draws(c, first_index, first_index + last);
  if constexpr (!kMaster && std::is_same_v<W, bf16> && std::is_same_v<G, bf16> &&
                std::is_same_v<M, bf16>) {
    if (s.aligned != 0 && last == kBlock - 1 && draws.one_span && first_index % 4 == 0) {
      return pure_block(s, begin, clip, decay, c, draws);
    }
  }
#pragma unroll 1
  for (int first = 0; first < kPacks<M, kMaster>; first += kAtOnce) {
    using All = Element<W, G, M, kMaster>;
    All e[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const auto [at, n, whole] = place_of(s, begin, first + k);
      if (n <= 0) continue;
      load(e[k].g, static_cast<const G*>(s.grad) + at, n, whole);
      load(e[k].m, static_cast<const M*>(s.m) + at, n, whole);
      load(e[k].v, static_cast<const M*>(s.v) + at, n, whole);
      if constexpr (kMaster) {
        load(e[k].master, static_cast<const Master<W>*>(s.master) + at, n, whole);
      }
      if constexpr (All::kReadsWeight) {
        load(e[k].w, static_cast<const W*>(s.weight) + at, n, whole);
      }
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const auto [at, n, whole] = place_of(s, begin, first + k);
      if (n <= 0) continue;
      float w[V], m[V], v[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const Moved moved = update(e[k].weight(i), e[k].m[i], e[k].v[i], e[k].g[i], clip, decay, c);
        w[i] = moved.w;
        m[i] = moved.m;
        v[i] = moved.v;
      }
      const uint64_t index = s.first_index + static_cast<uint64_t>(at);
      store(static_cast<M*>(s.m) + at, m, n, whole, index, draws, 1);
      store(static_cast<M*>(s.v) + at, v, n, whole, index, draws, 2);
      if constexpr (kMaster) {
#pragma unroll
        for (int i = 0; i < V; ++i) {
          if constexpr (All::kSplit) {
            w[i] = off_tie(w[i]);
            e[k].master.value[i] = static_cast<uint16_t>(__float_as_uint(w[i]));
          } else {
            e[k].master.value[i] = w[i];
          }
        }
        store(static_cast<Master<W>*>(s.master) + at, e[k].master, n, whole);
      }
      store(static_cast<W*>(s.weight) + at, w, n, whole, index, draws, kMaster ? -1 : 0);
    }
  }
}

AdamWConstants constants_for(const AdamWOptions& options, uint64_t first_span) {
  const auto wide = [](auto x) { return static_cast<double>(x); };
  const double correction1 = 1.0 - std::pow(wide(options.beta1), wide(options.step));
  const double correction2 = 1.0 - std::pow(wide(options.beta2), wide(options.step));
  AdamWConstants c{};
  c.decay = static_cast<float>(1.0 - wide(options.lr) * wide(options.weight_decay));
  c.rest1 = static_cast<float>(1.0 - wide(options.beta1));
  c.beta2 = options.beta2;
  c.rest2 = static_cast<float>(1.0 - wide(options.beta2));
  c.step_size = static_cast<float>(wide(options.lr) / correction1);
  c.root_correction = static_cast<float>(1.0 / std::sqrt(correction2));
  c.eps = options.eps;
  c.first_span = first_span;
  for (uint64_t what = 0; what < 3; ++what) {
    const CounterRng rng(options.seed, static_cast<uint64_t>(options.step) * 4 + what);
    for (uint64_t span = 0; span <= kSpans; ++span) {
      const uint64_t bits = rng.bits(first_span + span);
      c.keys[what][span] = {static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits)};
    }
  }
  return c;
}

void check_types(const AdamWSegment& s, const AdamWSegment& like) {
  STRETTO_CHECK(s.m.dtype() == s.v.dtype(), "moments {} and {}", dtype_name(s.m.dtype()),
                dtype_name(s.v.dtype()));
  STRETTO_CHECK(s.weight.dtype() == like.weight.dtype() && s.m.dtype() == like.m.dtype() &&
                    s.grad.dtype() == like.grad.dtype(),
                "adamw: stretches of different types");
}

Stretch stretch_of(const AdamWSegment& s) {
  const bool own_master = !s.master.none() && s.master.data() != s.weight.data();
  const bool aligned = aligned_to_16(s.weight.data()) && aligned_to_16(s.master.data()) &&
                       aligned_to_16(s.m.data()) && aligned_to_16(s.v.data()) &&
                       aligned_to_16(s.grad.data());
  return {const_cast<void*>(static_cast<const void*>(s.weight.data())),
          own_master ? s.master.data() : nullptr,
          s.m.data(),
          s.v.data(),
          s.grad.data(),
          s.weight.count(),
          s.first_index,
          0,
          s.decay ? 1 : 0,
          aligned ? 1 : 0};
}

// Calls f with the three element types, and whether there is a master.
template <typename F>
void with_types(const AdamWSegment& s, bool master, F&& f) {
  with_float_type(s.weight.dtype(), [&](auto w) {
    const auto with_master = [&](auto g, auto m) {
      using W = typename decltype(w)::type;
      if constexpr (std::is_same_v<W, bf16>) {
        master ? f(w, g, m, std::true_type{}) : f(w, g, m, std::false_type{});
      } else {
        f(w, g, m, std::is_same<W, f16>{});
      }
    };
    const auto with_moment = [&](auto g) {
      if (s.m.dtype() == DType::f32) {
        with_master(g, Type<float>{});
      } else {
        STRETTO_CHECK(s.m.dtype() == DType::bf16, "moments {}", dtype_name(s.m.dtype()));
        with_master(g, Type<bf16>{});
      }
    };
    if (s.grad.dtype() == DType::f32) {
      with_moment(Type<float>{});
    } else {
      STRETTO_CHECK(s.grad.dtype() == s.weight.dtype(), "gradients {} of weights {}",
                    dtype_name(s.grad.dtype()), dtype_name(s.weight.dtype()));
      with_moment(w);
    }
  });
}

}  // namespace

void CudaBackend::do_adamw(Tensor weight, Tensor master, Tensor m, Tensor v, ConstTensor grad,
                           ConstTensor control, const AdamWOptions& options) {
  const AdamWSegment all{weight, master, m, v, grad, true, options.first_index};
  do_adamw_segments({&all, 1}, control, options);
}

void CudaBackend::do_adamw_segments(std::span<const AdamWSegment> segments, ConstTensor control,
                                    const AdamWOptions& options) {
  STRETTO_CHECK(options.step >= 1, "step {}", options.step);
  std::vector<Stretch> table;
  for (const AdamWSegment& s : segments) {
    check_types(s, segments.front());
    if (s.weight.count() > 0) table.push_back(stretch_of(s));
  }
  if (table.empty()) return;
  const bool master = table.front().master != nullptr;
  uint64_t first_span = ~uint64_t{0}, last_span = 0;
  for (const Stretch& s : table) {
    STRETTO_CHECK((s.master != nullptr) == master, "adamw: stretches with and without a master");
    first_span = std::min(first_span, s.first_index >> 32);
    last_span = std::max(last_span, (s.first_index + static_cast<uint64_t>(s.count) - 1) >> 32);
  }
  STRETTO_CHECK(last_span - first_span < kSpans, "parameters {} to {} in one update",
                first_span << 32, last_span << 32);
  with_types(segments.front(), master, [&](auto w, auto g, auto moment, auto with_master) {
    using W = typename decltype(w)::type;
    using G = typename decltype(g)::type;
    using M = typename decltype(moment)::type;
    constexpr bool kMaster = with_master;
    int64_t blocks = 0;
    for (Stretch& s : table) {
      s.first_block = blocks;
      blocks += blocks_for(s.count, int64_t{kThreads} * V * kPacks<M, kMaster>);
    }
    const auto* on_device = static_cast<const Stretch*>(
        adamw_table_.upload(table.data(), table.size() * sizeof(Stretch), staging_, stream()));
    adamw_kernel<W, G, M, kMaster><<<static_cast<unsigned>(blocks), kThreads, 0, stream()>>>(
        on_device, static_cast<int>(table.size()), data_of<float>(control),
        constants_for(options, first_span));
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
