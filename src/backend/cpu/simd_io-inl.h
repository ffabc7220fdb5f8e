// Typed loads and stores for SIMD kernels: memory in f32, bf16, f16 or f8, arithmetic in f32.
//
// Per-target header: include it after hwy/foreach_target.h; it is compiled once for every ISA. A
// kernel body is written once, as a lambda over (index, lanes). for_lanes() calls it with Full for
// whole vectors and with Part for the rest of the row. Both use the same arithmetic, so the value
// of an element never depends on its place.
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"
#include "hwy/highway.h"

#if defined(STRETTO_BACKEND_CPU_SIMD_IO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_BACKEND_CPU_SIMD_IO_INL_H_
#undef STRETTO_BACKEND_CPU_SIMD_IO_INL_H_
#else
#define STRETTO_BACKEND_CPU_SIMD_IO_INL_H_
#endif

// Lambdas must be inlined into the loop, or their vectors would pass through memory.
#ifndef STRETTO_LANES
#define STRETTO_LANES [&](size_t i, auto lanes) __attribute__((always_inline))
#endif

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;

struct Full {};
struct Part {
  size_t count;
};

template <class D, class Body>
HWY_INLINE void for_lanes(D d, size_t count, Body body) {
  const size_t step = hn::Lanes(d);
  size_t i = 0;
  for (; i + step <= count; i += step) body(i, Full{});
  if (i < count) body(i, Part{count - i});
}

// Sum of term(index, lanes) over [0, count). Four independent chains hide the latency of additions.
template <class D, class Term>
HWY_INLINE hn::TFromD<D> sum_lanes(D d, size_t count, Term term) {
  const size_t step = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  size_t i = 0;
  for (; i + 4 * step <= count; i += 4 * step) {
    s0 = hn::Add(s0, term(i, Full{}));
    s1 = hn::Add(s1, term(i + step, Full{}));
    s2 = hn::Add(s2, term(i + 2 * step, Full{}));
    s3 = hn::Add(s3, term(i + 3 * step, Full{}));
  }
  for (; i + step <= count; i += step) s0 = hn::Add(s0, term(i, Full{}));
  if (i < count) s1 = hn::Add(s1, term(i, Part{count - i}));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

// --- between f32 lanes and 32-bit codes of a small format ------------------------------------

// The code of a float format with `kMantissa` explicit bits and exponent bias `kBias`, rounded to
// nearest even. Magnitudes beyond the format become kMaxCode.
template <int kMantissa, int kBias, uint32_t kMaxCode, uint32_t kNanCode, int kSignShift, class D>
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, D>> encode_small(D d, hn::Vec<D> v) {
  const hn::Rebind<uint32_t, D> du;
  const hn::Rebind<int32_t, D> di;
  constexpr int kShift = 23 - kMantissa;
  const auto bits = hn::BitCast(du, v);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  const auto sign = hn::ShiftRight<kSignShift>(hn::AndNot(hn::Set(du, 0x7fffffffu), bits));
  const auto odd = hn::And(hn::ShiftRight<kShift>(magnitude), hn::Set(du, 1u));
  const auto half = hn::Set(du, (1u << (kShift - 1)) - 1);
  const auto rebias = hn::Set(du, static_cast<uint32_t>(127 - kBias) << kMantissa);
  const auto normal =
      hn::Sub(hn::ShiftRight<kShift>(hn::Add(hn::Add(magnitude, half), odd)), rebias);
  // Adding 2^(23 + unit exponent) leaves the subnormal's code, rounded, in the low mantissa bits.
  const auto magic =
      hn::BitCast(d, hn::Set(du, static_cast<uint32_t>(127 + 1 - kBias - kMantissa + 23) << 23));
  const auto subnormal =
      hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), magic)), hn::BitCast(du, magic));
  const auto least_normal = hn::Set(di, static_cast<int32_t>(128 - kBias) << 23);
  const auto tiny = hn::RebindMask(du, hn::Lt(hn::BitCast(di, magnitude), least_normal));
  auto code = hn::Min(hn::IfThenElse(tiny, subnormal, normal), hn::Set(du, kMaxCode));
  code = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), hn::Set(du, kNanCode), code);
  return hn::Or(code, sign);
}

template <int kMantissa, int kBias, uint32_t kInfCode, uint32_t kNanCode, int kSignShift, class D>
HWY_INLINE hn::Vec<D> decode_small(D d, hn::Vec<hn::Rebind<uint32_t, D>> code) {
  const hn::Rebind<uint32_t, D> du;
  const hn::Rebind<int32_t, D> di;
  const auto low = hn::Set(du, (1u << (31 - kSignShift)) - 1);
  const auto magnitude = hn::And(code, low);
  const auto sign = hn::ShiftLeft<kSignShift>(hn::AndNot(low, code));
  const auto scale = hn::BitCast(d, hn::Set(du, static_cast<uint32_t>(254 - kBias) << 23));
  const auto value = hn::Mul(hn::BitCast(d, hn::ShiftLeft<23 - kMantissa>(magnitude)), scale);
  const auto signed_code = hn::BitCast(di, magnitude);
  auto bits = hn::BitCast(du, value);
  const auto inf = hn::Set(di, static_cast<int32_t>(kInfCode) - 1);
  bits =
      hn::IfThenElse(hn::RebindMask(du, hn::Gt(signed_code, inf)), hn::Set(du, 0x7f800000u), bits);
  const auto nan = hn::Set(di, static_cast<int32_t>(kNanCode) - 1);
  bits =
      hn::IfThenElse(hn::RebindMask(du, hn::Gt(signed_code, nan)), hn::Set(du, 0x7fc00000u), bits);
  return hn::BitCast(d, hn::Or(bits, sign));
}

// bf16 bits of f32 lanes, in the low half of each 32-bit lane: to nearest even, NaN kept quiet.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, D>> bf16_bits([[maybe_unused]] D d, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), hn::Or(high, hn::Set(du, 0x40u)),
                        rounded);
}

// --- load --------------------------------------------------------------------------------------

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* p, Full = {}) {
  return hn::LoadU(d, p);
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const bf16_t* p, Full = {}) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  const auto half = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, half)));
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const f16_t* p, Full = {}) {
  const hn::Rebind<uint16_t, D> d16;
  const auto half = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  // Highway's emulation of f16 handles neither infinity nor rounding.
  return decode_small<10, 15, 0x7c00, 0x7c01, 16>(d,
                                                  hn::PromoteTo(hn::Rebind<uint32_t, D>(), half));
#else
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const f8e4m3_t* p, Full = {}) {
  const hn::Rebind<uint8_t, D> d8;
  const auto code = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(p));
  return decode_small<3, 7, 0x7f, 0x7f, 24>(d, hn::PromoteTo(hn::Rebind<uint32_t, D>(), code));
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const f8e5m2_t* p, Full = {}) {
  const hn::Rebind<uint8_t, D> d8;
  const auto code = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(p));
  return decode_small<2, 15, 0x7c, 0x7d, 24>(d, hn::PromoteTo(hn::Rebind<uint32_t, D>(), code));
}

// Lanes at and beyond lanes.count are zero.
template <class D, typename T>
HWY_INLINE hn::Vec<D> load(D d, const T* p, Part lanes) {
  HWY_ALIGN T buffer[hn::MaxLanes(F32())] = {};
  std::memcpy(buffer, p, lanes.count * sizeof(T));
  return load(d, static_cast<const T*>(buffer), Full{});
}

// --- store -------------------------------------------------------------------------------------

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, float* p, Full = {}) {
  hn::StoreU(v, d, p);
}

template <class D, class V32>
HWY_INLINE void store_low16([[maybe_unused]] D d, V32 bits, void* p) {
  const hn::Rebind<uint16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<D>(), bits)), d16,
             static_cast<uint16_t*>(p));
}

template <class D, class V32>
HWY_INLINE void store_low8([[maybe_unused]] D d, V32 bits, void* p) {
  const hn::Rebind<uint8_t, D> d8;
  hn::StoreU(hn::DemoteTo(d8, hn::BitCast(hn::RebindToSigned<D>(), bits)), d8,
             static_cast<uint8_t*>(p));
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, bf16_t* p, Full = {}) {
  store_low16(d, bf16_bits(d, v), p);
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, f16_t* p, Full = {}) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  store_low16(d, encode_small<10, 15, 0x7c00, 0x7e00, 16>(d, v), p);
#else
  const hn::Rebind<uint16_t, D> d16;
  const auto half = hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v);
  hn::StoreU(hn::BitCast(d16, half), d16, reinterpret_cast<uint16_t*>(p));
#endif
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, f8e4m3_t* p, Full = {}) {
  store_low8(d, encode_small<3, 7, 0x7e, 0x7f, 24>(d, v), p);
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, f8e5m2_t* p, Full = {}) {
  store_low8(d, encode_small<2, 15, 0x7b, 0x7e, 24>(d, v), p);
}

template <class D, typename T>
HWY_INLINE void store(D d, hn::Vec<D> v, T* p, Part lanes) {
  HWY_ALIGN T buffer[hn::MaxLanes(F32())];
  store(d, v, static_cast<T*>(buffer), Full{});
  std::memcpy(p, buffer, lanes.count * sizeof(T));
}

// Zero where a Part has no element, for sums over values that were computed from padding.
template <class D>
HWY_INLINE hn::Vec<D> only(D, hn::Vec<D> v, Full) {
  return v;
}
template <class D>
HWY_INLINE hn::Vec<D> only(D d, hn::Vec<D> v, Part lanes) {
  return hn::IfThenElseZero(hn::FirstN(d, lanes.count), v);
}

template <class D>
HWY_INLINE hn::TFromD<D> sum_of(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

// --- from a run-time type to a template argument -------------------------------------------------

// Calls body(T{}) with the storage type of an activation or gradient.
template <class Body>
HWY_INLINE void with_float_type(DType type, Body body) {
  switch (type) {
    case DType::f32:
      return body(float{});
    case DType::bf16:
      return body(bf16_t{});
    case DType::f16:
      return body(f16_t{});
    default:
      contract_broken("f32, bf16 or f16", __FILE__, __LINE__, dtype_name(type));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
