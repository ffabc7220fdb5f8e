#include "fma_peak.h"

#include <omp.h>
#include <time.h>

#include <algorithm>
#include <cstdint>

#include "backend/cpu/targets.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fma_peak.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Twelve chains hide the latency of two FMA units. Returns the FLOPs done; `sink` keeps them alive.
double fma_burst(int64_t steps, float* sink) {
  const hn::ScalableTag<float> d;
  const auto x = hn::Set(d, 0.999f), y = hn::Set(d, 0.001f);
  // Different starts, or the compiler keeps one chain for all.
  auto a = hn::Iota(d, 1), b = hn::Iota(d, 2), c = hn::Iota(d, 3), e = hn::Iota(d, 4),
       f = hn::Iota(d, 5), g = hn::Iota(d, 6), h = hn::Iota(d, 7), i = hn::Iota(d, 8),
       j = hn::Iota(d, 9), k = hn::Iota(d, 10), l = hn::Iota(d, 11), m = hn::Iota(d, 12);
  for (int64_t step = 0; step < steps; ++step) {
    a = hn::MulAdd(a, x, y), b = hn::MulAdd(b, x, y), c = hn::MulAdd(c, x, y);
    e = hn::MulAdd(e, x, y), f = hn::MulAdd(f, x, y), g = hn::MulAdd(g, x, y);
    h = hn::MulAdd(h, x, y), i = hn::MulAdd(i, x, y), j = hn::MulAdd(j, x, y);
    k = hn::MulAdd(k, x, y), l = hn::MulAdd(l, x, y), m = hn::MulAdd(m, x, y);
  }
  const auto sum = hn::Add(
      hn::Add(hn::Add(a, b), hn::Add(c, e)),
      hn::Add(hn::Add(hn::Add(f, g), hn::Add(h, i)), hn::Add(hn::Add(j, k), hn::Add(l, m))));
  *sink += hn::GetLane(hn::SumOfLanes(d, sum));
  return static_cast<double>(steps) * 12 * 2 * static_cast<double>(hn::Lanes(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(fma_burst);

double fma_peak_gflops(int threads) {
  double best = 0;
  for (int run = 0; run < 10; ++run) {
    double flops = 0;
    float sink = 0;
    const double start = bench_seconds(threads);
#pragma omp parallel num_threads(threads) reduction(+ : flops, sink)
    {
      float local = 0;
      flops += HWY_DYNAMIC_DISPATCH(fma_burst)(1000000, &local);
      sink += local;
    }
    const double seconds = bench_seconds(threads) - start;
    if (sink != 0) best = std::max(best, flops / seconds * 1e-9);
  }
  return best;
}

double bench_seconds(int threads) {
  timespec now{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace stretto
#endif  // HWY_ONCE
