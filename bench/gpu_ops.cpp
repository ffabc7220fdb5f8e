// Every operator of a training step alone, at the shapes of a model: time, rate, and nothing else.
//   bench_gpu_ops [125m|1b|7b] [repeats]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/cuda_options.h"
#include "base/random.h"

namespace stretto {
namespace {

struct Sizes {
  const char* name;
  int64_t B, T, C, H;
  int64_t rows() const { return B * T; }
};

constexpr Sizes kModels[] = {
    {"125m", 64, 1024, 768, 12}, {"1b", 16, 2048, 2048, 16}, {"7b", 6, 2048, 4096, 32}};
constexpr int64_t kVocab = 50368;

class Bench {
 public:
  Bench(Backend& backend, int repeats) : backend_(backend), repeats_(repeats), noise_(kNoise) {
    const CounterRng rng(7, 1);
    for (size_t i = 0; i < kNoise; ++i) noise_[i] = to_bf16(rng.uniform(i) - 0.5f);
  }

  Tensor zeros(DType type, Shape shape) {
    const auto bytes = static_cast<size_t>(shape.count()) * dtype_size(type);
    buffers_.push_back(backend_.allocate(bytes, "benchmark"));
    Tensor t(buffers_.back().data(), type, shape);
    backend_.fill_zero(t);
    return t;
  }
  Tensor random(Shape shape) {
    Tensor t = zeros(DType::bf16, shape);
    for (int64_t at = 0; at < t.count(); at += kNoise) {
      const int64_t end = std::min<int64_t>(t.count(), at + kNoise);
      backend_.copy_from_host(t.slice(at, end), noise_.data());
    }
    return t;
  }
  Tensor tokens(Shape shape) {
    Tensor t = zeros(DType::i32, shape);
    std::vector<int32_t> host(static_cast<size_t>(shape.count()));
    const CounterRng rng(7, 2);
    for (size_t i = 0; i < host.size(); ++i) {
      host[i] = static_cast<int32_t>(rng.bits(i) % (kVocab - 100));
    }
    backend_.copy_from_host(t, host.data());
    return t;
  }

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

  void forget() {
    backend_.synchronize();
    buffers_.clear();
  }

 private:
  static constexpr size_t kNoise = size_t{1} << 22;
  Backend& backend_;
  int repeats_;
  std::vector<bf16_t> noise_;
  std::vector<Buffer> buffers_;
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
  for (const char* kernel : {"cudnn", "cudnn-atomic", "flash"}) {
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
    bench.time("LayerNorm backward",
               [&] { b.layernorm_backward(sum, dw, db, out, x, mean, rstd, w, Grad::accumulate); });
    const Tensor tokens = bench.tokens({s.B, s.T}), wte = bench.random({kVocab, s.C});
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
    const Tensor logits = bench.random({chunk, kVocab}), targets = bench.tokens({chunk});
    const Tensor lse = bench.zeros(DType::f32, {chunk}), target = bench.zeros(DType::f32, {chunk});
    const Tensor scale = bench.zeros(DType::f32, {1});
    bench.time("cross entropy forward, 16384 rows", [&] {
      b.cross_entropy_forward(lse, target, logits, targets, {0, 50257});
    });
    bench.time("cross entropy backward, 16384 rows", [&] {
      b.cross_entropy_backward(logits, lse, targets, scale, {0, 50257});
    });
    bench.forget();
  }
  const int64_t n = int64_t{1} << 28;
  const Tensor weight = bench.zeros(DType::bf16, {n}), master = bench.zeros(DType::f32, {n});
  const Tensor m = bench.zeros(DType::f32, {n}), v = bench.zeros(DType::f32, {n});
  const Tensor grad = bench.zeros(DType::f32, {n}), control = bench.zeros(DType::f32, {2});
  const Tensor stats = bench.zeros(DType::f64, {3});
  bench.time("gradient statistics, 2^28", [&] { b.gradient_stats(stats, grad); });
  bench.time("AdamW, f32 master, 2^28",
             [&] { b.adamw(weight, master, m, v, grad, control, AdamWOptions{}); });
  bench.forget();
}

int run(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "125m";
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 10;
  for (const Sizes& s : kModels) {
    if (wanted != s.name) continue;
    fmt::print("mpt-{} shapes, B {} T {} C {} H {}, bf16\n", s.name, s.B, s.T, s.C, s.H);
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
  fmt::print(stderr, "bench_gpu_ops [125m|1b|7b] [repeats]\n");
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
