// The FMA peak of some cores as one line of JSON, from a thousand runs of a few milliseconds:
// `gflops` is the median, what the cores keep up; `best` the quickest run.
//   bench_fma [threads]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "fma_peak.h"

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (threads < 1) {
    fmt::print(stderr, "bench_fma: {} threads? Give a number from 1 on.\n", argv[1]);
    return 64;
  }
  std::vector<double> runs(1000);
  for (double& run : runs) run = stretto::fma_gflops(threads);
  std::sort(runs.begin(), runs.end());
  fmt::print("{{\"threads\": {}, \"gflops\": {:.1f}, \"best\": {:.1f}}}\n", threads,
             runs[runs.size() / 2], runs.back());
}
