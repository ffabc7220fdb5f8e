#include "machine/fma.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "machine/fma.cpp"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Two pipes with a latency of four or five cycles need ten independent sums. Sixteen registers can
// hold twelve sums and the two factors.
double Rounds(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> tag;
  const auto x = hn::Set(tag, 0.999f + *sink * 1e-9f), y = hn::Set(tag, 0.001f);
  // All start with different values; otherwise the compiler would see equal sums and compute only
  // one.
  auto a0 = hn::Set(tag, 0.1f), a1 = hn::Set(tag, 0.2f), a2 = hn::Set(tag, 0.3f),
       a3 = hn::Set(tag, 0.4f), a4 = hn::Set(tag, 0.5f), a5 = hn::Set(tag, 0.6f),
       a6 = hn::Set(tag, 0.7f), a7 = hn::Set(tag, 0.8f), a8 = hn::Set(tag, 0.9f),
       a9 = hn::Set(tag, 1.1f), a10 = hn::Set(tag, 1.2f), a11 = hn::Set(tag, 1.3f);
  for (int64_t i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, x, y);
    a1 = hn::MulAdd(a1, x, y);
    a2 = hn::MulAdd(a2, x, y);
    a3 = hn::MulAdd(a3, x, y);
    a4 = hn::MulAdd(a4, x, y);
    a5 = hn::MulAdd(a5, x, y);
    a6 = hn::MulAdd(a6, x, y);
    a7 = hn::MulAdd(a7, x, y);
    a8 = hn::MulAdd(a8, x, y);
    a9 = hn::MulAdd(a9, x, y);
    a10 = hn::MulAdd(a10, x, y);
    a11 = hn::MulAdd(a11, x, y);
  }
  const auto b0 = hn::Add(hn::Add(a0, a1), hn::Add(a2, a3));
  const auto b1 = hn::Add(hn::Add(a4, a5), hn::Add(a6, a7));
  const auto b2 = hn::Add(hn::Add(a8, a9), hn::Add(a10, a11));
  *sink = hn::GetLane(hn::SumOfLanes(tag, hn::Add(b0, hn::Add(b1, b2))));
  return 2.0 * 12.0 * static_cast<double>(hn::Lanes(tag)) * static_cast<double>(rounds);
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(Rounds);

double fma_rounds(int64_t rounds, float* sink) {
  return HWY_DYNAMIC_DISPATCH(Rounds)(rounds, sink);
}

const char* fma_target() {
  const int64_t supported = hwy::SupportedTargets();
  return hwy::TargetName(supported & -supported);  // the lowest bit is the best target
}

}  // namespace stretto
#endif
