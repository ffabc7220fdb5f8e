#include "fma_peak.h"

#include <omp.h>
#include <time.h>

#include <algorithm>

#include "machine/fma.h"

namespace stretto {

double fma_gflops(int threads) {
  double flops = 0;
  const double start = bench_seconds(threads);
#pragma omp parallel num_threads(threads) reduction(+ : flops)
  {
    float sink = 1;
    flops += fma_rounds(1'000'000, &sink);
  }
  return flops / (bench_seconds(threads) - start) * 1e-9;
}

double fma_peak_gflops(int threads) {
  double best = 0;
  for (int run = 0; run < 10; ++run) best = std::max(best, fma_gflops(threads));
  return best;
}

double bench_seconds(int threads) {
  timespec now{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace stretto
