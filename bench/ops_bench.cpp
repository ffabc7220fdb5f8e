// Memory-bound operators against what the memory delivers.
//
//   build/bench/ops_bench --benchmark_filter=layernorm
//
// GB/s counts each operand once, as the backend's own profile does; "of triad" divides by the rate
// of a = b + s * c over arrays far beyond the caches, measured with as many threads just before.
// Both are the best of their repetitions; the time column is the mean.
// STRETTO_BENCH_THREADS sets the threads (default: 2).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/parallel_for.h"
#include "base/random.h"

namespace stretto {
namespace {

int threads() {
  const char* text = std::getenv("STRETTO_BENCH_THREADS");
  return text == nullptr ? 2 : std::max(1, std::atoi(text));
}

Backend& cpu() {
  static const std::unique_ptr<Backend> backend = make_cpu_backend(threads());
  return *backend;
}

// Owns tensors and fills them: normal values, or tokens below `tokens`.
class Memory {
 public:
  Tensor make(DType type, Shape shape, float scale = 1) {
    const size_t bytes = static_cast<size_t>(shape.count()) * dtype_size(type);
    buffers_.push_back(cpu().allocate(bytes, "bench"));
    const Tensor t(buffers_.back().data(), type, shape);
    if (type == DType::f64 || type == DType::i32 || type == DType::u16) {
      cpu().fill_zero(t);
      return t;
    }
    std::vector<float> values(static_cast<size_t>(shape.count()));
    const CounterRng rng(1, buffers_.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = scale * (rng.uniform(i) - 0.5f);
    cpu().convert(t, ConstTensor(values.data(), DType::f32, shape));
    return t;
  }
  Tensor tokens(Shape shape, uint64_t vocab) {
    const Tensor t = make(DType::i32, shape);
    const CounterRng rng(2, 3);
    for (int64_t i = 0; i < t.count(); ++i) {
      t.as<int32_t>()[i] = static_cast<int32_t>(rng.bits(static_cast<uint64_t>(i)) % vocab);
    }
    return t;
  }

 private:
  std::vector<Buffer> buffers_;
};

double triad_bytes_per_second() {
  constexpr int64_t kCount = int64_t{1} << 25, kPiece = int64_t{1} << 16;  // 128 MiB each
  std::vector<float> a(kCount), b(kCount, 1.0f), c(kCount, 2.0f);
  double best = 0;
  for (int repeat = 0; repeat < 6; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    parallel_for(threads(), kCount / kPiece, [&](int64_t piece) {
      float* x = a.data() + piece * kPiece;
      const float* y = b.data() + piece * kPiece;
      const float* z = c.data() + piece * kPiece;
      for (int64_t i = 0; i < kPiece; ++i) x[i] = y[i] + 3.0f * z[i];
    });
    benchmark::DoNotOptimize(a.data());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 3.0 * kCount * sizeof(float) / seconds.count());
  }
  return best;
}

double triad() {
  static const double rate = triad_bytes_per_second();
  return rate;
}

// Runs `call` and reports the bytes that the backend counted for it.
template <typename Call>
void measure(benchmark::State& state, const Call& call) {
  call();
  cpu().profile().reset();
  call();
  const double bytes = cpu().profile().all().bytes;
  double best = 1e30;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(took.count());
    best = std::min(best, took.count());
  }
  const double rate = bytes / best;
  state.counters["GB/s"] = rate * 1e-9;
  state.counters["triad_GB/s"] = triad() * 1e-9;
  state.counters["of_triad"] = rate / triad();
}

constexpr int64_t kBatch = 4, kLength = 1024, kRows = kBatch * kLength;
constexpr int64_t kWidth = 768, kVocab = 50304, kParameters = 32 << 20;

void layernorm_forward(benchmark::State& state, DType type) {
  Memory m;
  const Tensor out = m.make(type, {kRows, kWidth}), inp = m.make(type, {kRows, kWidth});
  const Tensor mean = m.make(DType::f32, {kRows}), rstd = m.make(DType::f32, {kRows});
  const Tensor weight = m.make(type, {kWidth}), bias = m.make(type, {kWidth});
  measure(state, [&] { cpu().layernorm_forward(out, mean, rstd, inp, weight, bias); });
}

void residual_layernorm_forward(benchmark::State& state, DType type) {
  Memory m;
  const Tensor out = m.make(type, {kRows, kWidth}), sum = m.make(type, {kRows, kWidth});
  const Tensor a = m.make(type, {kRows, kWidth}), b = m.make(type, {kRows, kWidth});
  const Tensor mean = m.make(DType::f32, {kRows}), rstd = m.make(DType::f32, {kRows});
  const Tensor weight = m.make(type, {kWidth}), bias = m.make(type, {kWidth});
  measure(state,
          [&] { cpu().residual_layernorm_forward(sum, out, mean, rstd, a, b, weight, bias); });
}

void layernorm_backward(benchmark::State& state, DType type) {
  Memory m;
  const Tensor dinp = m.make(type, {kRows, kWidth}), inp = m.make(type, {kRows, kWidth});
  const Tensor dout = m.make(type, {kRows, kWidth}), weight = m.make(type, {kWidth});
  const Tensor mean = m.make(DType::f32, {kRows}), rstd = m.make(DType::f32, {kRows});
  const Tensor dweight = m.make(DType::f32, {kWidth}), dbias = m.make(DType::f32, {kWidth});
  measure(state, [&] {
    cpu().layernorm_backward(dinp, dweight, dbias, dout, inp, mean, rstd, weight, Grad::overwrite);
  });
}

void gelu_forward(benchmark::State& state, DType type) {
  Memory m;
  const Tensor out = m.make(type, {kRows, 4 * kWidth}), pre = m.make(type, {kRows, 4 * kWidth}, 6);
  measure(state, [&] { cpu().gelu_forward(out, pre, Gelu::tanh); });
}

void add(benchmark::State& state, DType type) {
  Memory m;
  const Tensor out = m.make(type, {kRows, 4 * kWidth});
  const Tensor a = m.make(type, {kRows, 4 * kWidth}), b = m.make(type, {kRows, 4 * kWidth});
  measure(state, [&] { cpu().add(out, a, b); });
}

void embedding_forward(benchmark::State& state, DType type) {
  Memory m;
  const Tensor out = m.make(type, {kBatch, kLength, kWidth});
  const Tensor wte = m.make(type, {kVocab, kWidth}), wpe = m.make(type, {kLength, kWidth});
  const Tensor tokens = m.tokens({kBatch, kLength}, kVocab);
  measure(state, [&] { cpu().embedding_forward(out, tokens, wte, wpe); });
}

void embedding_backward(benchmark::State& state, DType type) {
  Memory m;
  const Tensor dout = m.make(type, {kBatch, kLength, kWidth});
  const Tensor dwte = m.make(DType::f32, {kVocab, kWidth});
  const Tensor dwpe = m.make(DType::f32, {kLength, kWidth});
  const Tensor tokens = m.tokens({kBatch, kLength}, kVocab);
  measure(state, [&] { cpu().embedding_backward(dwte, dwpe, dout, tokens); });
}

void cross_entropy_forward(benchmark::State& state, DType type) {
  Memory m;
  const Tensor logits = m.make(type, {512, kVocab}, 8), targets = m.tokens({512}, 50257);
  const Tensor lse = m.make(DType::f32, {512}), target = m.make(DType::f32, {512});
  measure(state, [&] { cpu().cross_entropy_forward(lse, target, logits, targets, {0, 50257}); });
}

// In place: later runs see gradients instead of logits, at the same cost.
void cross_entropy_backward(benchmark::State& state, DType type) {
  Memory m;
  const Tensor logits = m.make(type, {512, kVocab}, 8), targets = m.tokens({512}, 50257);
  const Tensor lse = m.make(DType::f32, {512}), scale = m.make(DType::f32, {1});
  measure(state, [&] { cpu().cross_entropy_backward(logits, lse, targets, scale, {0, 50257}); });
}

void gradient_stats(benchmark::State& state, DType type) {
  Memory m;
  const Tensor grad = m.make(type, {kParameters}), stats = m.make(DType::f64, {3});
  measure(state, [&] { cpu().gradient_stats(stats, grad); });
}

// f32: weights are their own master; bf16: mixed precision; f16 is not measured.
void adamw(benchmark::State& state, DType type) {
  Memory m;
  const Tensor weight = m.make(type, {kParameters}), grad = m.make(DType::f32, {kParameters});
  const Tensor master = type == DType::f32 ? weight : m.make(DType::u16, {kParameters});
  const Tensor m1 = m.make(DType::f32, {kParameters}), m2 = m.make(DType::f32, {kParameters});
  cpu().fill_zero(m2);
  const float go[2] = {1, 0};
  AdamWOptions options;
  options.lr = 1e-4f;
  options.weight_decay = 0.1f;
  measure(state, [&] {
    cpu().adamw(weight, master, m1, m2, grad, ConstTensor(go, DType::f32, {2}), options);
  });
}

void adamw_pure_bf16(benchmark::State& state, DType type) {
  Memory m;
  const Tensor weight = m.make(type, {kParameters}), grad = m.make(type, {kParameters});
  const Tensor m1 = m.make(type, {kParameters}), m2 = m.make(type, {kParameters});
  cpu().fill_zero(m2);
  const float go[2] = {1, 0};
  AdamWOptions options;
  options.lr = 1e-4f;
  measure(state, [&] {
    cpu().adamw(weight, {}, m1, m2, grad, ConstTensor(go, DType::f32, {2}), options);
  });
}

// To f32 where the type is narrow, from f32 to bf16 otherwise.
void convert(benchmark::State& state, DType type) {
  Memory m;
  const Tensor src = m.make(type, {kParameters});
  const Tensor dst = m.make(type == DType::f32 ? DType::bf16 : DType::f32, {kParameters});
  measure(state, [&] { cpu().convert(dst, src); });
}

void register_all() {
  using Function = void (*)(benchmark::State&, DType);
  const std::pair<const char*, Function> operators[] = {
      {"embedding_forward", embedding_forward},
      {"embedding_backward", embedding_backward},
      {"layernorm_forward", layernorm_forward},
      {"residual_layernorm_forward", residual_layernorm_forward},
      {"layernorm_backward", layernorm_backward},
      {"gelu_forward", gelu_forward},
      {"add", add},
      {"cross_entropy_forward", cross_entropy_forward},
      {"cross_entropy_backward", cross_entropy_backward},
      {"gradient_stats", gradient_stats},
      {"adamw", adamw},
      {"convert", convert},
  };
  for (const auto& [name, function] : operators) {
    for (const DType type : {DType::f32, DType::bf16}) {
      benchmark::RegisterBenchmark((std::string(name) + "/" + dtype_name(type)).c_str(), function,
                                   type)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RegisterBenchmark("adamw_pure/bf16", adamw_pure_bf16, DType::bf16)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace stretto

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 64;
  stretto::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
