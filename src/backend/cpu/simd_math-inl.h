// exp, both forms of GELU and their derivatives on f32 lanes. All kernels use these, so that a
// fused epilogue and a separate operator give the same bits.
//
// Per-target header: include it after hwy/foreach_target.h. NaN in gives NaN out on every ISA: no
// minimum or maximum is taken of an argument that may be NaN, because ISAs differ there.
#if defined(STRETTO_SIMD_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_SIMD_MATH_INL_H
#undef STRETTO_SIMD_MATH_INL_H
#else
#define STRETTO_SIMD_MATH_INL_H
#endif

#include <hwy/highway.h>

#include "base/gelu.h"

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// e^x within 1.1 ulp. Results below 2^-125 are flushed to 0; beyond the largest float: infinity.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_vec(D d, V x) {
  const hn::RebindToSigned<D> di;
  // x = n ln 2 + r, |r| <= ln 2 / 2; ln 2 in two parts, n times the first is exact.
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // Minimax fit of (e^r - 1 - r) / r^2; the relative error of e^r is 2^-28.
  V q = hn::MulAdd(r, hn::Set(d, 0.00138145988f), hn::Set(d, 0.00836871658f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.041668389f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.166665211f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.49999994f));
  const V e = hn::Add(hn::MulAdd(q, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  // 2^(n-1) and a doubling: n reaches 128, one more than an exponent can hold.
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 126)));
  V y = hn::Mul(hn::Add(e, e), hn::BitCast(d, exponent));
  y = hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.7228394f)), hn::BitCast(d, hn::Set(di, 0x7f800000)),
                     y);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -86.6433945f)), y);
}

constexpr float kGeluScale = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715f;

// 1 + e^(-2u), u = scale (x + cubic x^3): gelu(x) = x / 2 (1 + tanh u) is x divided by this.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_divisor(D d, V x) {
  const V inner = hn::MulAdd(hn::Mul(x, x), hn::Set(d, -2 * kGeluScale * kGeluCubic),
                             hn::Set(d, -2 * kGeluScale));
  return hn::Add(hn::Set(d, 1.0f), exp_vec(d, hn::Mul(x, inner)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh(D d, V x) {
  const V y = hn::Div(x, gelu_divisor(d, x));
  // -infinity / infinity would be NaN.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -32.0f)), y);
}

// d gelu / dx = s + 2 x s (1 - s) u'(x), with s = 1 / (1 + e^(-2u)).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh_grad(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V s = hn::Div(one, gelu_divisor(d, x));
  const V slope = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 6 * kGeluScale * kGeluCubic),
                             hn::Set(d, 2 * kGeluScale));
  const V bend = hn::Mul(hn::Mul(x, slope), hn::Mul(s, hn::Sub(one, s)));
  // Far out the gate is exactly 0 or 1, but x^3 may overflow.
  const auto far = hn::Gt(hn::Abs(x), hn::Set(d, 32.0f));
  return hn::Add(s, hn::IfThenZeroElse(far, bend));
}

// e^(-x^2 / 2), and 0 beyond +-32. An error in x^2 would be multiplied by x^2, so it is computed in
// two parts, from an upper half of x whose square is exact.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V bell(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const V high = hn::BitCast(d, hn::And(hn::BitCast(du, x), hn::Set(du, 0xfffff000u)));
  const V minus_half = hn::Set(d, -0.5f);
  const V main = hn::Mul(minus_half, hn::Mul(high, high));
  const V rest = hn::Mul(minus_half, hn::Mul(hn::Sub(x, high), hn::Add(x, high)));
  const V sum = hn::Add(main, rest), lost = hn::Sub(rest, hn::Sub(sum, main));
  const V e = exp_vec(d, sum);
  return hn::IfThenZeroElse(hn::Gt(hn::Abs(x), hn::Set(d, 32.0f)), hn::MulAdd(e, lost, e));
}

// The probability that a standard normal value is below x. The lower tail is bell(x) times a
// function of t = 1 / (1 + 0.3 |x|): a minimax fit with relative error 2^-28.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V normal_share(D d, V x, V bell) {
  const V one = hn::Set(d, 1.0f);
  const V t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.3f), hn::Abs(x), one));
  V q = hn::MulAdd(t, hn::Set(d, -0.0206130967f), hn::Set(d, 0.112377234f));
  q = hn::MulAdd(q, t, hn::Set(d, -0.22807093f));
  q = hn::MulAdd(q, t, hn::Set(d, 0.191586256f));
  q = hn::MulAdd(q, t, hn::Set(d, -0.079251118f));
  q = hn::MulAdd(q, t, hn::Set(d, 0.0960598439f));
  q = hn::MulAdd(q, t, hn::Set(d, 0.0784248859f));
  q = hn::MulAdd(q, t, hn::Set(d, 0.110227473f));
  q = hn::MulAdd(q, t, hn::Set(d, 0.119572826f));
  q = hn::MulAdd(q, t, hn::Set(d, 0.119686633f));
  const V tail = hn::Mul(hn::Mul(q, t), bell);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_exact(D d, V x) {
  const V y = hn::Mul(x, normal_share(d, x, bell(d, x)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -32.0f)), y);  // -infinity times 0 would be NaN
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_exact_grad(D d, V x) {
  const V e = bell(d, x);
  const V bend = hn::Mul(hn::Mul(x, hn::Set(d, 0.398942280f)), e);  // 1 / sqrt(2 pi)
  const auto far = hn::Gt(hn::Abs(x), hn::Set(d, 32.0f));
  return hn::Add(normal_share(d, x, e), hn::IfThenZeroElse(far, bend));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_vec(D d, V x, Gelu form) {
  return form == Gelu::exact ? gelu_exact(d, x) : gelu_tanh(d, x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_grad_vec(D d, V x, Gelu form) {
  return form == Gelu::exact ? gelu_exact_grad(d, x) : gelu_tanh_grad(d, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
