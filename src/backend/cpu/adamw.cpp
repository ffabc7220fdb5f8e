// AdamW with decoupled weight decay, clipping and conversion to the compute type in one pass over
// memory (Loshchilov and Hutter 2019; formula and order of torch.optim.AdamW).
//
// Blocks of some KiB are converted to f32 if necessary, updated, and written back, all inside the
// first-level cache. So one update loop serves every combination of types.
//
// Values that are only kept in bf16 (pure bf16 weights, bf16 moments) are rounded stochastically;
// otherwise an update smaller than half a step of bf16 would always be lost. The random bits are a
// function of (seed, step, what, global index of the element), the same for every sharding. Four
// neighbours share a hash, because on GPUs the instructions of the hash would limit the speed of
// the update.
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/pieces.h"
#include "backend/cpu/targets.h"
#include "base/random.h"

#ifndef STRETTO_ADAMW_ONCE
#define STRETTO_ADAMW_ONCE
namespace stretto {

struct AdamWConstants {
  float clip, decay, rest1, beta2, rest2, step_size, root_correction, eps;
};

struct AdamWUpdate {
  Tensor weight, master, m, v;
  ConstTensor grad;
  AdamWOptions options;
  AdamWConstants constants;
};

}  // namespace stretto
#endif

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/adamw.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

constexpr int64_t kBlock = 512;

// Two keys per (seed, step, what, upper half of the index); the lower half is hashed with them.
struct RoundingKeys {
  uint32_t first, second;
};

RoundingKeys rounding_keys(const AdamWOptions& options, uint64_t what, uint64_t index) {
  const CounterRng rng(options.seed, static_cast<uint64_t>(options.step) * 4 + what);
  const uint64_t bits = rng.bits(index >> 32);
  return {static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits)};
}

template <class D, class V>
HWY_INLINE V mix(D du, V x, uint32_t multiplier) {
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  x = hn::Mul(x, hn::Set(du, multiplier));
  return hn::Xor(x, hn::ShiftRight<15>(x));
}

// 16 bits for each index: four neighbours use the halves of one hash, and of its hash.
template <class D, class V>
HWY_INLINE V random_bits(D du, V index, RoundingKeys keys) {
  auto r = mix(du, hn::Xor(hn::ShiftRight<2>(index), hn::Set(du, keys.first)), 0x7feb352du);
  r = mix(du, hn::Xor(r, hn::Set(du, keys.second)), 0x846ca68bu);
  const auto zero = hn::Zero(du);
  const auto first_pair = hn::Eq(hn::And(index, hn::Set(du, 2u)), zero);
  r = hn::IfThenElse(first_pair, r, mix(du, r, 0x7feb352du));
  const auto even = hn::Eq(hn::And(index, hn::Set(du, 1u)), zero);
  return hn::IfThenElse(even, hn::ShiftRight<16>(r), hn::And(r, hn::Set(du, 0xffffu)));
}

// The low 16 bits of each lane.
template <class D, class V, class Lanes>
HWY_INLINE void store_u16(D d, V bits, uint16_t* p, Lanes lanes) {
  if constexpr (std::is_same_v<Lanes, Full>) {
    store_low16(d, bits, p);
  } else {
    HWY_ALIGN uint16_t buffer[hn::MaxLanes(F32())];
    store_low16(d, bits, buffer);
    std::memcpy(p, buffer, lanes.count * sizeof(uint16_t));
  }
}

// src (f32) to bf16: rounds up with a probability equal to the fraction that is cut off.
void round_stochastic(bf16_t* dst, const float* src, size_t n, uint64_t index, RoundingKeys keys) {
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  const auto low = static_cast<uint32_t>(index);
  for_lanes(
      d, n, STRETTO_LANES {
        const auto v = load(d, src + i, lanes);
        const auto bits = hn::BitCast(du, v);
        const auto r = random_bits(du, hn::Iota(du, low + static_cast<uint32_t>(i)), keys);
        const auto rounded = hn::ShiftRight<16>(hn::Add(bits, r));
        const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
        const auto out = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
        store_u16(d, out, &dst[i].bits, lanes);
      });
}

void update_block(float* p, float* m, float* v, const float* g, size_t n, const AdamWConstants& c) {
  const F32 d;
  const auto clip = hn::Set(d, c.clip), decay = hn::Set(d, c.decay);
  const auto beta2 = hn::Set(d, c.beta2), rest1 = hn::Set(d, c.rest1);
  const auto rest2 = hn::Set(d, c.rest2), step_size = hn::Set(d, c.step_size);
  const auto root_correction = hn::Set(d, c.root_correction), eps = hn::Set(d, c.eps);
  for_lanes(
      d, n, STRETTO_LANES {
        const auto grad = hn::Mul(load(d, g + i, lanes), clip);
        const auto m_old = load(d, static_cast<const float*>(m) + i, lanes);
        const auto v_old = load(d, static_cast<const float*>(v) + i, lanes);
        const auto p_old = load(d, static_cast<const float*>(p) + i, lanes);
        const auto m_new = hn::MulAdd(rest1, hn::Sub(grad, m_old), m_old);
        const auto v_new = hn::MulAdd(hn::Mul(rest2, grad), grad, hn::Mul(beta2, v_old));
        const auto divisor = hn::MulAdd(hn::Sqrt(v_new), root_correction, eps);
        const auto p_new = hn::NegMulAdd(step_size, hn::Div(m_new, divisor), hn::Mul(p_old, decay));
        store(d, m_new, m + i, lanes);
        store(d, v_new, v + i, lanes);
        store(d, p_new, p + i, lanes);
      });
}

// The block as f32: in place if it is f32, else copied into `buffer`.
float* open_block(ConstTensor t, int64_t begin, int64_t n, float* buffer) {
  if (t.dtype() == DType::f32) return const_cast<float*>(t.as<float>()) + begin;
  with_float_type(t.dtype(), [&](auto type) {
    const auto* src = t.as<decltype(type)>() + begin;
    const F32 d;
    for_lanes(
        d, static_cast<size_t>(n),
        STRETTO_LANES { store(d, load(d, src + i, lanes), buffer + i, lanes); });
  });
  return buffer;
}

void close_block(Tensor t, int64_t begin, int64_t n, const float* block,
                 const AdamWOptions& options, uint64_t what) {
  if (t.dtype() == DType::f32) return;
  const uint64_t index = options.first_index + static_cast<uint64_t>(begin);
  round_stochastic(t.as<bf16_t>() + begin, block, static_cast<size_t>(n), index,
                   rounding_keys(options, what, index));
}

// The f32 values made of weights and their lower halves, as by join().
float* join_block(ConstTensor weight, ConstTensor low, int64_t begin, int64_t n, float* buffer) {
  const auto* high = weight.as<bf16_t>() + begin;
  const auto* rest = reinterpret_cast<const bf16_t*>(low.as<uint16_t>() + begin);
  const F32 d;
  const hn::RebindToSigned<F32> di;
  for_lanes(
      d, static_cast<size_t>(n), STRETTO_LANES {
        const auto upper = hn::BitCast(di, load(d, high + i, lanes));
        const auto signed_rest = hn::ShiftRight<16>(hn::BitCast(di, load(d, rest + i, lanes)));
        store(d, hn::BitCast(d, hn::Add(upper, signed_rest)), buffer + i, lanes);
      });
  return buffer;
}

// Stores the lower halves of `block`, after moving its values off ties, as split() does.
void keep_low_halves(Tensor low, int64_t begin, int64_t n, float* block) {
  auto* dst = low.as<uint16_t>() + begin;
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  for_lanes(
      d, static_cast<size_t>(n), STRETTO_LANES {
        const auto half = hn::Set(du, 0xffffu);
        const auto bits = hn::BitCast(du, load(d, static_cast<const float*>(block) + i, lanes));
        const auto tie = hn::Eq(hn::And(bits, half), hn::Set(du, 0x8000u));
        const auto one = hn::Set(du, 1u);
        const auto odd = hn::And(hn::ShiftRight<16>(bits), one);  // goes up, by one; even down
        const auto step = hn::Sub(hn::Add(odd, odd), one);
        const auto moved = hn::Add(bits, hn::IfThenElseZero(tie, step));
        store(d, hn::BitCast(d, moved), block + i, lanes);
        store_u16(d, hn::And(moved, half), dst + i, lanes);
      });
}

// Writes the compute-type copy of a master weight, rounded to nearest.
void copy_block(Tensor t, int64_t begin, int64_t n, const float* block) {
  with_float_type(t.dtype(), [&](auto type) {
    auto* dst = t.as<decltype(type)>() + begin;
    const F32 d;
    for_lanes(
        d, static_cast<size_t>(n),
        STRETTO_LANES { store(d, load(d, block + i, lanes), dst + i, lanes); });
  });
}

void adamw_range(const AdamWUpdate& a, int64_t begin, int64_t end) {
  HWY_ALIGN float buffer[4][kBlock];
  const bool split = a.weight.dtype() == DType::bf16 && !a.master.none();
  const bool copied = a.weight.dtype() == DType::f16;
  const Tensor& primary = copied ? a.master : a.weight;
  for (int64_t at = begin; at < end;) {
    // A block never crosses a multiple of 2^32 in the global index, so one pair of keys is enough.
    const uint64_t index = a.options.first_index + static_cast<uint64_t>(at);
    const auto to_next = static_cast<int64_t>((uint64_t{1} << 32) - (index & 0xffffffffu));
    const int64_t n = std::min({kBlock, end - at, to_next});
    float* p = split ? join_block(a.weight, a.master, at, n, buffer[0])
                     : open_block(primary, at, n, buffer[0]);
    float* m = open_block(a.m, at, n, buffer[1]);
    float* v = open_block(a.v, at, n, buffer[2]);
    const float* g = open_block(a.grad, at, n, buffer[3]);
    update_block(p, m, v, g, static_cast<size_t>(n), a.constants);
    if (split) keep_low_halves(a.master, at, n, p);
    if (split || copied) {
      copy_block(a.weight, at, n, p);
    } else {
      close_block(a.weight, at, n, p, a.options, 0);
    }
    close_block(a.m, at, n, m, a.options, 1);
    close_block(a.v, at, n, v, a.options, 2);
    at += n;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(adamw_range);

void CpuBackend::do_adamw(Tensor weight, Tensor master, Tensor m, Tensor v, ConstTensor grad,
                          ConstTensor control, const AdamWOptions& options) {
  const float* ctl = control.as<float>();
  if (ctl[1] != 0) return;
  check_float_types(weight, grad);
  STRETTO_CHECK(options.step >= 1, "step {}", options.step);
  for (const DType type : {m.dtype(), v.dtype()}) {
    STRETTO_CHECK(type == DType::f32 || type == DType::bf16, "moments {}", dtype_name(type));
  }
  const auto wide = [](auto x) { return static_cast<double>(x); };
  const double correction1 = 1.0 - std::pow(wide(options.beta1), wide(options.step));
  const double correction2 = 1.0 - std::pow(wide(options.beta2), wide(options.step));
  AdamWConstants c{};
  c.clip = ctl[0];
  c.decay = static_cast<float>(1.0 - wide(options.lr) * wide(options.weight_decay));
  c.rest1 = static_cast<float>(1.0 - wide(options.beta1));
  c.beta2 = options.beta2;
  c.rest2 = static_cast<float>(1.0 - wide(options.beta2));
  c.step_size = static_cast<float>(wide(options.lr) / correction1);
  c.root_correction = static_cast<float>(1.0 / std::sqrt(correction2));
  c.eps = options.eps;
  for_ranges(threads_, weight.count(), kPieceElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(adamw_range)({weight, master, m, v, grad, options, c}, begin, end);
  });
}

}  // namespace stretto
#endif  // HWY_ONCE
