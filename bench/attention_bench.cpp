// Attention of GPT-2 124M: GFLOP/s of the causal FLOPs, forward and backward, over T.
//   bench_attention [threads] [repeats] [head size] [disabled Highway targets, a bit mask]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "backend/backend.h"
#include "fma_peak.h"
#include "hwy/targets.h"

namespace stretto {
namespace {

void run(int threads, int repeats, int64_t d) {
  auto backend = make_cpu_backend(threads);
  const int64_t h = 768 / d;
  fmt::print("{} threads, {} heads of {}, FMA peak {:.1f} GFLOP/s\n", threads, h, d,
             fma_peak_gflops(threads));
  fmt::print("{:>6} {:>4} {:>9} {:>9}\n", "T", "B", "forward", "backward");
  for (int64_t t : {64, 256, 1024, 2048, 4096, 8192}) {
    const int64_t b = t <= 1024 ? 4 : 1, count = b * t * h * d;
    std::vector<float> qkv(static_cast<size_t>(3 * count)), dqkv(qkv.size());
    std::vector<float> out(static_cast<size_t>(count)), dout(out.size(), 0.01f);
    std::vector<float> lse(static_cast<size_t>(b * h * t));
    for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = std::sin(static_cast<float>(i));
    const auto tensor = [&](std::vector<float>& x, Shape shape) {
      return Tensor(x.data(), DType::f32, shape);
    };
    AttentionOptions options;
    options.heads = h;
    const Shape wide{b, t, 3, h, d}, narrow{b, t, h, d};
    double forward = std::numeric_limits<double>::infinity(), backward = forward;
    for (int repeat = 0; repeat < (t > 2048 ? 1 : repeats); ++repeat) {
      const double start = bench_seconds(threads);
      backend->attention_forward(tensor(out, narrow), tensor(lse, {b, h, t}), tensor(qkv, wide),
                                 options);
      const double middle = bench_seconds(threads);
      backend->attention_backward(tensor(dqkv, wide), tensor(dout, narrow), tensor(qkv, wide),
                                  tensor(out, narrow), tensor(lse, {b, h, t}), options);
      forward = std::min(forward, middle - start);
      backward = std::min(backward, bench_seconds(threads) - middle);
    }
    const double flops = 2.0 * static_cast<double>(b * h * d) * static_cast<double>(t * (t + 1));
    fmt::print("{:6} {:4} {:9.1f} {:9.1f}\n", t, b, flops / forward * 1e-9,
               2.5 * flops / backward * 1e-9);
  }
}

}  // namespace
}  // namespace stretto

int main(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::atoi(argv[at]) : otherwise;
  };
  if (argc > 4) hwy::DisableTargets(std::strtoll(argv[4], nullptr, 0));
  stretto::run(number(1, 2), number(2, 5), number(3, 64));
}
