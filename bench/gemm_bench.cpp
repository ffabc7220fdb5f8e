// Matrix products of a GPT-2 124M step, every implementation on every shape, interleaved. The
// column `free` is OpenBLAS on the whole product with threads of its own: what results that do not
// depend on the number of threads cost is the difference to the others.
//   bench_gemm [threads] [rows] [repeats] [f32|bf16] [disabled Highway targets, a bit mask]
#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "backend/cpu/gemm.h"
#include "fma_peak.h"
#include "hwy/targets.h"

namespace stretto {
namespace {

struct Layer {
  const char* name;
  int64_t n, k;
};
constexpr int64_t kVocab = 50304;
const Layer kLayers[] = {{"qkv", 2304, 768},
                         {"proj", 768, 768},
                         {"up", 3072, 768},
                         {"down", 768, 3072},
                         {"head", kVocab, 768}};
enum Kind { forward, input_grad, weight_grad };
const char* const kKinds[] = {"forward", "input gradient", "weight gradient"};

GemmArgs product(const Layer& layer, Kind kind, int64_t rows, DType type, const float* x,
                 const float* w, float* y) {
  GemmArgs args;
  const auto stored = [&](const float* p, int64_t stride, bool transposed) {
    return ConstMatrix{p, type, stride, transposed};
  };
  if (kind == forward) {
    args = {rows,
            layer.n,
            layer.k,
            stored(x, layer.k, false),
            stored(w, layer.k, true),
            {y, type, layer.n},
            false,
            {}};
  } else if (kind == input_grad) {
    args = {rows,
            layer.k,
            layer.n,
            stored(y, layer.n, false),
            stored(w, layer.k, false),
            {const_cast<float*>(x), type, layer.k},
            false,
            {}};
  } else {
    args = {layer.n,
            layer.k,
            rows,
            stored(y, layer.n, true),
            stored(x, layer.k, false),
            {const_cast<float*>(w), DType::f32, layer.k},
            false,
            {}};
  }
  return args;
}

double seconds_of(const GemmArgs& args, GemmContext& context, GemmChoice choice) {
  const double start = bench_seconds(context.threads);
  gemm(args, context, choice);
  return bench_seconds(context.threads) - start;
}

double free_seconds(const GemmArgs& args, int threads) {
  const auto order = [](const ConstMatrix& m) { return m.transposed ? CblasTrans : CblasNoTrans; };
  const auto narrow = [](int64_t size) { return static_cast<blasint>(size); };
  const auto floats = [](const ConstMatrix& m) { return static_cast<const float*>(m.data); };
  openblas_set_num_threads(threads);
  const double start = bench_seconds(threads);
  cblas_sgemm(CblasRowMajor, order(args.a), order(args.b), narrow(args.m), narrow(args.n),
              narrow(args.k), 1.0f, floats(args.a), narrow(args.a.stride), floats(args.b),
              narrow(args.b.stride), 0.0f, static_cast<float*>(args.c.data), narrow(args.c.stride));
  const double seconds = bench_seconds(threads) - start;
  openblas_set_num_threads(1);
  return seconds;
}

void run(int threads, int64_t rows, int repeats, DType type) {
  GemmContext context(threads);
  const double peak = fma_peak_gflops(threads);
  fmt::print("{} threads, {} rows, {}, FMA peak {:.1f} GFLOP/s\n", threads, rows, dtype_name(type),
             peak);
  fmt::print("{:6} {:16}", "layer", "product");
  for (const auto& implementation : gemm_implementations())
    fmt::print(" {:>9}", implementation.name);
  fmt::print(" {:>9}\n", "free");
  std::map<std::string, double> total;
  double total_flops = 0, total_best = 0;
  for (const Layer& layer : kLayers) {
    std::vector<float> x(static_cast<size_t>(rows * layer.k), 0.01f);
    std::vector<float> w(static_cast<size_t>(layer.n * layer.k), 0.01f);
    std::vector<float> y(static_cast<size_t>(rows * layer.n), 0.01f);
    for (Kind kind : {forward, input_grad, weight_grad}) {
      const GemmArgs args = product(layer, kind, rows, type, x.data(), w.data(), y.data());
      const double flops = 2.0 * static_cast<double>(args.m * args.n) * static_cast<double>(args.k);
      std::map<std::string, double> best;
      for (int repeat = 0; repeat < repeats; ++repeat) {
        for (const auto& implementation : gemm_implementations()) {
          if (!implementation.supports(args)) continue;
          const bool emulated =
              implementation.choice == GemmChoice::amx && choose_gemm(args) != GemmChoice::amx;
          if (emulated) continue;
          const double seconds = seconds_of(args, context, implementation.choice);
          auto [at, fresh] = best.try_emplace(implementation.name, seconds);
          if (!fresh) at->second = std::min(at->second, seconds);
        }
        if (type != DType::f32) continue;
        const double seconds = free_seconds(args, threads);
        auto [at, fresh] = best.try_emplace("free", seconds);
        if (!fresh) at->second = std::min(at->second, seconds);
      }
      fmt::print("{:6} {:16}", layer.name, kKinds[kind]);
      const double times = layer.n == kVocab ? 1 : 12;  // layers of the model
      double least = std::numeric_limits<double>::infinity();
      for (const auto& implementation : gemm_implementations()) {
        if (!best.contains(implementation.name)) {
          fmt::print(" {:>9}", "-");
          continue;
        }
        fmt::print(" {:9.1f}", flops / best[implementation.name] * 1e-9);
        total[implementation.name] += times * best[implementation.name];
        least = std::min(least, best[implementation.name]);
      }
      if (best.contains("free")) {
        fmt::print(" {:9.1f}", flops / best["free"] * 1e-9);
        total["free"] += times * best["free"];
      }
      fmt::print("\n");
      total_flops += times * flops;
      total_best += times * least;
    }
  }
  fmt::print("{:23}", "step, GFLOP/s");
  for (const auto& implementation : gemm_implementations()) {
    fmt::print(" {:9.1f}", total_flops / total[implementation.name] * 1e-9);
  }
  if (total.contains("free")) fmt::print(" {:9.1f}", total_flops / total["free"] * 1e-9);
  fmt::print("  best per shape {:.1f} = {:.2f} of peak\n", total_flops / total_best * 1e-9,
             total_flops / total_best * 1e-9 / peak);
}

}  // namespace
}  // namespace stretto

int main(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::atoi(argv[at]) : otherwise;
  };
  if (argc > 5) hwy::DisableTargets(std::strtoll(argv[5], nullptr, 0));
  const bool narrow = argc > 4 && std::string(argv[4]) == "bf16";
  stretto::run(number(1, 2), number(2, 1024), number(3, 5),
               narrow ? stretto::DType::bf16 : stretto::DType::f32);
}
