#include "base/normal_pairs.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/normal_pairs.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void pairs(double* even, double* odd, const double* u, const double* angle, size_t count) {
  const hn::CappedTag<double, kNormalStep> d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), hn::Log(d, hn::LoadU(d, u + i))));
    const auto turn = hn::LoadU(d, angle + i);
    hn::StoreU(hn::Mul(radius, hn::Cos(d, turn)), d, even + i);
    hn::StoreU(hn::Mul(radius, hn::Sin(d, turn)), d, odd + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(pairs);

void normal_pairs(double* even, double* odd, const double* u, const double* angle, size_t count) {
  HWY_DYNAMIC_DISPATCH(pairs)(even, odd, u, angle, count);
}

}  // namespace stretto
#endif  // HWY_ONCE
