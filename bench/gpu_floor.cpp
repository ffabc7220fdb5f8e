#include "gpu_floor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "account/parameters.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/telemetry.h"
#include "config/registry.h"
#include "gpu_tensors.h"

namespace stretto::bench {
namespace {

struct Point {
  const char *name, *model;
  int64_t T, B;
  DType gradients = DType::f32;  // of weights, as tools/gpu-train-bench has them
  bool pure = false;             // bf16 throughout

  int64_t n() const { return B * T; }
  ModelShape shape() const {
    ModelShape shape = find_model(model);
    shape.positions = T;
    return shape;
  }
};

constexpr Point kPoints[] = {{"125m-1024", "mpt-125m", 1024, 64},
                             {"125m-2048", "mpt-125m", 2048, 64},
                             {"350m-2048", "mpt-350m", 2048, 32},
                             {"760m-2048", "mpt-760m", 2048, 24, DType::bf16},
                             {"1b-2048", "mpt-1b", 2048, 16, DType::bf16},
                             {"1b-8192", "mpt-1b", 8192, 4, DType::bf16},
                             {"3b-2048", "mpt-3b", 2048, 8, DType::bf16},
                             {"7b-2048", "mpt-7b", 2048, 6, DType::bf16, true}};
constexpr int64_t kChunk = 16384;
constexpr double kCopy = 4.29e12;  // bytes per second of a device-to-device copy on an H200
constexpr double kSettle = 0.5, kTimed = 1.0;  // seconds

// Mean seconds of one call once the clock has settled under the load.
double sustained(Backend& backend, const std::function<void()>& work) {
  const auto run = [&](int count) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) work();
    backend.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / count;
  };
  run(1);  // chooses algorithms
  const double once = run(1);
  const auto calls = [&](double seconds) { return std::max(1, static_cast<int>(seconds / once)); };
  run(calls(kSettle));
  return run(calls(kTimed));
}

// The matrices of one layer and the head; all layers share them.
class Step {
 public:
  Step(Backend& backend, const Point& p)
      : b_(backend), p_(p), layers_(p.shape().layers), make_(backend) {
    const DType grads = p.gradients;
    const ModelShape shape = p.shape();
    const int64_t n = p.n(), C = shape.hidden, H = shape.heads, D = shape.head_size();
    const int64_t words = shape.vocab;
    const int64_t shapes[4][2] = {{3 * C, C}, {C, C}, {4 * C, C}, {C, 4 * C}};
    for (int i = 0; i < 4; ++i) {
      const auto [rows, columns] = shapes[i];
      // What comes out is as large as what goes in, and attention not all on one word.
      weight_[i] = make_.random({rows, columns}, 1 / std::sqrt(static_cast<float>(columns)));
      dweight_[i] = make_.zeros(grads, {rows, columns});
    }
    norm_ = make_.random({n, C});
    dnorm_ = make_.random({n, C});
    stream_ = make_.random({n, C});
    act_ = make_.random({n, 4 * C});
    dact_ = make_.random({n, 4 * C});
    qkv_ = make_.random({p.B, p.T, 3, H, D});
    dqkv_ = make_.random({p.B, p.T, 3, H, D});
    att_ = make_.random({p.B, p.T, H, D});
    datt_ = make_.random({p.B, p.T, H, D});
    lse_ = make_.zeros(DType::f32, {p.B, H, p.T});
    words_ = make_.random({words, C}, 1 / std::sqrt(static_cast<float>(C)));
    dwords_ = make_.zeros(grads, {words, C});
    logits_ = make_.random({std::min(n, kChunk), words});
    attention_.heads = attention_.total_heads = H;
  }

  void products() {
    for (int64_t l = 0; l < layers_; ++l) forward(true, false);
    head();
    for (int64_t l = 0; l < layers_; ++l) backward(true, false);
  }
  void attention() {
    for (int64_t l = 0; l < layers_; ++l) forward(false, true);
    for (int64_t l = 0; l < layers_; ++l) backward(false, true);
  }
  void all() {
    for (int64_t l = 0; l < layers_; ++l) forward(true, true);
    head();
    for (int64_t l = 0; l < layers_; ++l) backward(true, true);
  }

 private:
  Tensor rows(const Tensor& t) const { return t.view({p_.n(), t.count() / p_.n()}); }

  void forward(bool products, bool attention) {
    if (products) b_.linear_forward(rows(qkv_), norm_, weight_[0], {});
    if (attention) b_.attention_forward(att_, lse_, qkv_, attention_);
    if (!products) return;
    b_.linear_forward(stream_, rows(att_), weight_[1], {});
    b_.linear_forward(act_, norm_, weight_[2], {});
    b_.linear_forward(stream_, act_, weight_[3], {});
  }
  void backward(bool products, bool attention) {
    const auto both = [&](const Tensor& dinp, const Tensor& dout, const Tensor& inp, int i) {
      b_.linear_backward_input(dinp, dout, weight_[i]);
      b_.linear_backward_weight(dweight_[i], {}, inp, dout, Grad::overwrite);
    };
    if (products) {
      both(dact_, dnorm_, act_, 3);
      both(stream_, dact_, norm_, 2);
      both(rows(datt_), dnorm_, rows(att_), 1);
    }
    if (attention) b_.attention_backward(dqkv_, datt_, qkv_, att_, lse_, attention_);
    if (products) both(stream_, rows(dqkv_), norm_, 0);
  }
  void head() {
    for (int64_t at = 0; at < p_.n(); at += kChunk) {
      const int64_t end = std::min(p_.n(), at + kChunk);
      const Tensor logits = logits_.row_range(0, end - at);
      b_.linear_forward(logits, norm_.row_range(at, end), words_, {});
      b_.linear_backward_input(stream_.row_range(at, end), logits, words_);
      b_.linear_backward_weight(dwords_, {}, norm_.row_range(at, end), logits,
                                at == 0 ? Grad::overwrite : Grad::accumulate);
    }
  }

  Backend& b_;
  Point p_;
  int64_t layers_;
  GpuTensors make_;
  Tensor weight_[4], dweight_[4];
  Tensor norm_, dnorm_, stream_, act_, dact_, qkv_, dqkv_, att_, datt_, lse_, words_, dwords_,
      logits_;
  AttentionOptions attention_;
};

// Bytes of the passes that no product can take over, each operand once: LayerNorm forward (one
// read, one write) and backward (its input, two gradients, the sum), the loss (of the head's input
// twice, of its gradient once, read and written), gradient statistics, AdamW.
double pass_bytes(const Point& p) {
  const ModelShape shape = p.shape();
  const auto parameters = static_cast<double>(parameter_count(shape));
  const double rows =
      static_cast<double>(2 * shape.layers + 1) * static_cast<double>(p.n() * shape.hidden) * 2;
  const double loss = static_cast<double>(p.n() * shape.hidden) * 2 * 6;
  const auto gradient = static_cast<double>(dtype_size(p.gradients));  // read by both of the last
  const double state = p.pure ? 12 : 24;  // moments and weights, read and written
  return rows * (2 + 4) + loss + parameters * (state + 2 * gradient);
}

// What GELU adds even where products do all else: the forward pass writes one tensor more, the
// backward pass reads it.
double gelu_bytes(const Point& p) {
  const ModelShape shape = p.shape();
  return 2.0 * static_cast<double>(shape.layers * p.n() * shape.ffn) * 2;
}

void measure(const Point& p, Backend& backend, GpuTelemetry* telemetry) {
  Step step(backend, p);
  const double products = sustained(backend, [&] { step.products(); });
  const double attention = sustained(backend, [&] { step.attention(); });
  if (telemetry != nullptr) telemetry->start();
  const double all = sustained(backend, [&] { step.all(); });
  GpuWindow window;
  if (telemetry != nullptr) {
    window = telemetry->take();
    telemetry->stop();
  }
  const double passes = pass_bytes(p) / kCopy, floor = all + passes;
  const double with_gelu = floor + gelu_bytes(p) / kCopy;
  fmt::print("{:>10} {:>9.1f} {:>9.1f} {:>9.1f} {:>8.1f} {:>8.1f} {:>10.1f} {:>5.0f} {:>4.0f}\n",
             p.name, 1e3 * products, 1e3 * attention, 1e3 * all, 1e3 * passes, 1e3 * floor,
             1e3 * with_gelu, window.sm_clock_mhz_mean, window.power_watts_mean);
  std::fflush(stdout);
}

}  // namespace

int gpu_floor(const std::vector<std::string>& points) {
  const auto telemetry = open_gpu_telemetry(0);
  fmt::print("{:>10} {:>9} {:>9} {:>9} {:>8} {:>8} {:>10} {:>5} {:>4}   ms a step\n", "point",
             "products", "attention", "together", "passes", "floor", "with GELU", "MHz", "W");
  for (const Point& p : kPoints) {
    if (!points.empty() && std::find(points.begin(), points.end(), p.name) == points.end())
      continue;
    CudaOptions options;
    options.repeatable = false;
    const auto backend = make_cuda_backend(0, options);
    measure(p, *backend, telemetry.get());
  }
  return 0;
}

}  // namespace stretto::bench
