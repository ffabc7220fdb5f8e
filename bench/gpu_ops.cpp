// Every operator of a training step alone, at the shapes of a model: time, rate, and nothing else.
//   bench_gpu_ops [125m|350m|1b|7b] [repeats]
//   bench_gpu_ops attention [125m|350m|1b|7b] [repeats]
//   bench_gpu_ops floor [125m-1024 ...]   a step's products and attention back to back: gpu_floor.h
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/cuda_options.h"
#include "gpu_floor.h"
#include "gpu_tensors.h"

namespace stretto {
namespace {

struct Sizes {
  const char* name;
  int64_t B, T, C, H;
  int64_t rows() const { return B * T; }
};

constexpr Sizes kModels[] = {{"125m", 64, 1024, 768, 12},
                             {"350m", 32, 2048, 1024, 16},
                             {"1b", 16, 2048, 2048, 16},
                             {"7b", 6, 2048, 4096, 32}};
constexpr int64_t kVocab = 50368, kWords = 50257;

class Bench : public GpuTensors {
 public:
  Bench(Backend& backend, int repeats) : GpuTensors(backend), repeats_(repeats) {}

  void time(const std::string& what, const std::function<void()>& work) {
    for (int i = 0; i < 3; ++i) work();
    backend_.synchronize();
    backend_.profile().reset();
    for (int i = 0; i < repeats_; ++i) work();
    backend_.synchronize();
    const OpTotals t = backend_.profile().all();
    const double seconds = t.seconds / repeats_;
    fmt::print("{:<34} {:>10.1f} us {:>8.2f} TB/s {:>8.1f} TFLOP/s\n", what, seconds * 1e6,
               t.bytes / t.seconds / 1e12, t.flops / t.seconds / 1e12);
    std::fflush(stdout);
  }

 private:
  int repeats_;
};

void linear(Bench& bench, Backend& b, const char* name, int64_t rows, int64_t n, int64_t k,
            bool gelu, bool bias) {
  const Tensor inp = bench.random({rows, k}), weight = bench.random({n, k});
  const Tensor out = bench.random({rows, n}), dinp = bench.zeros(DType::bf16, {rows, k});
  const Tensor bias_t = bias ? bench.random({n}) : Tensor();
  const Tensor dweight = bench.zeros(DType::f32, {n, k});
  const Tensor dbias = bias ? bench.zeros(DType::f32, {n}) : Tensor();
  LinearOptions options;
  if (gelu) {
    options.gelu = Gelu::tanh;
    options.pre = bench.zeros(DType::bf16, {rows, n});
  }
  bench.time(fmt::format("{} forward{}", name, gelu ? " + gelu" : ""),
             [&] { b.linear_forward(out, inp, weight, bias_t, options); });
  bench.time(fmt::format("{} input gradient", name),
             [&] { b.linear_backward_input(dinp, out, weight); });
  bench.time(fmt::format("{} weight gradient", name),
             [&] { b.linear_backward_weight(dweight, dbias, inp, out, Grad::accumulate); });
  bench.forget();
}

void attention(const Sizes& s, int device, int repeats) {
  for (const char* kernel : {"cudnn", "cudnn-atomic", "hopper", "flash"}) {
    CudaOptions options;
    options.attention = kernel;
    options.time_operators = true;
    auto backend = make_cuda_backend(device, options);
    Bench own(*backend, repeats);
    const int64_t D = s.C / s.H;
    const Tensor qkv = own.random({s.B, s.T, 3, s.H, D}), out = own.random({s.B, s.T, s.H, D});
    const Tensor dqkv = own.random({s.B, s.T, 3, s.H, D}), dout = own.random({s.B, s.T, s.H, D});
    const Tensor lse = own.zeros(DType::f32, {s.B, s.H, s.T});
    AttentionOptions attention;
    attention.heads = s.H;
    own.time(fmt::format("attention forward, {}", kernel),
             [&] { backend->attention_forward(out, lse, qkv, attention); });
    own.time(fmt::format("attention backward, {}", kernel),
             [&] { backend->attention_backward(dqkv, dout, qkv, out, lse, attention); });
    own.forget();
  }
}

void rest(Bench& bench, Backend& b, const Sizes& s) {
  const int64_t rows = s.rows();
  {
    const Tensor x = bench.random({rows, s.C}), y = bench.random({rows, s.C});
    const Tensor sum = bench.random({rows, s.C}), out = bench.random({rows, s.C});
    const Tensor w = bench.random({s.C}), mean = bench.zeros(DType::f32, {rows});
    const Tensor rstd = bench.zeros(DType::f32, {rows}), dw = bench.zeros(DType::f32, {s.C});
    const Tensor db = bench.zeros(DType::f32, {s.C});
    bench.time("residual + LayerNorm forward",
               [&] { b.residual_layernorm_forward(sum, out, mean, rstd, x, y, w, w); });
    bench.time("LayerNorm forward", [&] { b.layernorm_forward(out, mean, rstd, x, w, w); });
    bench.time("LayerNorm backward",
               [&] { b.layernorm_backward(sum, dw, db, out, x, mean, rstd, w, Grad::accumulate); });
    const Tensor tokens = bench.tokens({s.B, s.T}, kWords), wte = bench.random({kVocab, s.C});
    const Tensor wpe = bench.random({s.T, s.C}), dwte = bench.zeros(DType::f32, {kVocab, s.C});
    const Tensor dwpe = bench.zeros(DType::f32, {s.T, s.C});
    bench.time("embedding forward", [&] {
      b.embedding_forward(out.view({s.B, s.T, s.C}), tokens, wte, wpe);
    });
    bench.time("embedding backward", [&] {
      b.embedding_backward(dwte, dwpe, out.view({s.B, s.T, s.C}), tokens);
    });
    bench.forget();
  }
  {
    const Tensor x = bench.random({rows, 4 * s.C}), out = bench.random({rows, 4 * s.C});
    const Tensor w = bench.random({s.C, 4 * s.C}), dout = bench.random({rows, s.C});
    LinearInputGradOptions options;
    options.gelu = Gelu::tanh;
    options.pre = x;
    options.dbias = bench.zeros(DType::f32, {4 * s.C});
    bench.time("down input gradient, dgelu, dbias",
               [&] { b.linear_backward_input(out, dout, w, options); });
    bench.time("gelu forward", [&] { b.gelu_forward(out, x, Gelu::tanh); });
    bench.forget();
  }
  {
    const int64_t chunk = std::min<int64_t>(rows, 16384);
    const Tensor logits = bench.random({chunk, kVocab}), targets = bench.tokens({chunk}, kWords);
    const Tensor lse = bench.zeros(DType::f32, {chunk}), target = bench.zeros(DType::f32, {chunk});
    const Tensor scale = bench.zeros(DType::f32, {1}), loss = bench.zeros(DType::f64, {1});
    bench.time("cross entropy forward, 16384 rows", [&] {
      b.cross_entropy_forward(lse, target, logits, targets, {0, kWords});
    });
    bench.time("cross entropy backward, 16384 rows", [&] {
      b.cross_entropy_backward(logits, lse, targets, scale, {0, kWords});
    });
    bench.time("loss and gradient in place, 16384", [&] {
      b.cross_entropy_in_place(lse, target, loss, logits, targets, scale, {0, kWords});
    });
    bench.forget();
  }
  const int64_t n = int64_t{1} << 28;
  for (const DType type : {DType::f32, DType::bf16}) {  // of gradients and moments
    const bool pure = type == DType::bf16;
    const Tensor weight = bench.random({n}), control = bench.zeros(DType::f32, {2});
    const Tensor master = pure ? Tensor() : bench.zeros(DType::u16, {n});
    const Tensor m = bench.zeros(type, {n});
    const Tensor v = bench.zeros(type, {n}), grad = bench.zeros(type, {n});
    const Tensor stats = bench.zeros(DType::f64, {3});
    const char* kind = pure ? "pure bf16" : "split master";
    bench.time(fmt::format("gradient statistics, {}, 2^28", dtype_name(type)),
               [&] { b.gradient_stats(stats, grad); });
    bench.time(fmt::format("AdamW, {}, 2^28", kind),
               [&] { b.adamw(weight, master, m, v, grad, control, AdamWOptions{}); });
    bench.forget();
  }
}

int run(int argc, char** argv) {
  std::string wanted = argc > 1 ? argv[1] : "125m";
  if (wanted == "floor") return bench::gpu_floor({argv + 2, argv + argc});
  const bool attention_only = wanted == "attention";
  if (attention_only) {
    --argc, ++argv;
    wanted = argc > 1 ? argv[1] : "125m";
  }
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 10;
  for (const Sizes& s : kModels) {
    if (wanted != s.name) continue;
    fmt::print("mpt-{} shapes, B {} T {} C {} H {}, bf16\n", s.name, s.B, s.T, s.C, s.H);
    if (attention_only) {
      attention(s, 0, repeats);
      return 0;
    }
    CudaOptions options;
    options.time_operators = true;
    auto backend = make_cuda_backend(0, options);
    Bench bench(*backend, repeats);
    linear(bench, *backend, "qkv", s.rows(), 3 * s.C, s.C, false, true);
    linear(bench, *backend, "proj", s.rows(), s.C, s.C, false, true);
    linear(bench, *backend, "up", s.rows(), 4 * s.C, s.C, true, true);
    linear(bench, *backend, "down", s.rows(), s.C, 4 * s.C, false, true);
    linear(bench, *backend, "head, 16384 rows", std::min<int64_t>(s.rows(), 16384), kVocab, s.C,
           false, false);
    attention(s, 0, repeats);
    rest(bench, *backend, s);
    return 0;
  }
  fmt::print(stderr, "bench_gpu_ops [attention] [125m|350m|1b|7b] [repeats], or floor [points]\n");
  return 64;
}

}  // namespace
}  // namespace stretto

int main(int argc, char** argv) {
  try {
    return stretto::run(argc, argv);
  } catch (const stretto::Error& error) {
    fmt::print(stderr, "{}\n{}\n", error.what(), error.hint());
    return static_cast<int>(error.code());
  }
}
