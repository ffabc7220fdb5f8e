#include "plan/kernels.h"

#include <algorithm>
#include <cmath>

#include "account/parameters.h"
#include "base/ceil_div.h"
#include "plan/softmax_rule.h"

namespace stretto::plan {
namespace {

constexpr OutputTile kTiles[] = {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.97},
                                 {256, 64, 0.92}, {64, 256, 0.92}, {128, 64, 0.86},
                                 {64, 128, 0.86}, {64, 64, 0.72}};
// Our own CPU kernels keep a tile of this size in registers (with AVX-512; others are close).
constexpr OutputTile kCoreTiles[] = {{14, 32, 1.0}};

}  // namespace

Rates make_rates(const Cluster& cluster, const Stack& stack, Precision precision) {
  const Constants& c = stack.constants;
  Rates r;
  const bool fp8 = precision == Precision::amp_fp8 && cluster.matrix_flops_fp8 > 0;
  // CPUs have matrix units for bf16 at most, so fp16 operands are converted to fp32 first.
  const bool as_fp32 =
      precision == Precision::fp32 || (cluster.time_shared && precision == Precision::amp_fp16);
  r.matrix_peak = as_fp32 ? cluster.vector_flops : cluster.matrix_flops;
  r.eight_bit = fp8;
  r.head_matrix = r.matrix_peak * c[Constant::gemm];
  r.matrix = r.head_matrix * (fp8 ? c[Constant::fp8] : 1.0);
  r.misaligned = std::min(r.matrix, cluster.vector_flops * c[Constant::misaligned]);
  r.misaligned_batched = std::min(r.matrix, cluster.vector_flops * c[Constant::misaligned_batched]);
  r.stream = cluster.memory_bandwidth * c[Constant::hbm];
  r.units = static_cast<double>(cluster.units);
  r.alignment = cluster.alignment;
  r.tiles = kTiles;
  if (stack.own_runtime && !cluster.has_gpus()) r.tiles = kCoreTiles;
  r.wave = std::min(1.0, c[Constant::wave]);
  r.ramp = c[Constant::ramp];
  r.flash_forward = r.matrix_peak * c[Constant::flash_forward];
  r.flash_backward = r.matrix_peak * c[Constant::flash_backward];
  r.flash_64 = c[Constant::flash_64];
  r.flash_ramp = c[Constant::flash_ramp];
  r.softmax = c[Constant::softmax];
  r.unfused = c[Constant::unfused];
  r.cross_entropy = c[Constant::cross_entropy];
  r.gap = c[Constant::gap];
  r.element = static_cast<int>(dtype_size(types_of(precision).compute));
  return r;
}

double gemm_seconds(const Rates& r, double batch, int64_t m, int64_t n, int64_t k) {
  const double dm = static_cast<double>(m), dn = static_cast<double>(n),
               dk = static_cast<double>(k);
  const double bytes = batch * r.element * (dm * dk + dk * dn + dm * dn);
  const double traffic = bytes / r.stream;
  if (m % r.alignment != 0 || n % r.alignment != 0 || k % r.alignment != 0) {
    const double rate = batch > 1 ? r.misaligned_batched : r.misaligned;
    return std::max(2 * batch * dm * dn * dk / rate, traffic);
  }
  const double per_unit = r.matrix / r.units;
  double best = 1e300;
  for (const OutputTile& tile : r.tiles) {
    const double tiles = batch * static_cast<double>(ceil_div(m, tile.m) * ceil_div(n, tile.n));
    const double waves = tiles / r.units;
    // Split-K and the next kernel hide a part of the last wave's idle units.
    const double paid = waves + r.wave * (std::ceil(waves - 1e-9) - waves);
    const double flops = 2.0 * static_cast<double>(tile.m * tile.n) * (dk + r.ramp);
    best = std::min(best, paid * flops / (per_unit * tile.efficiency));
  }
  return std::max(best, traffic);
}

LayerTime& LayerTime::operator+=(const LayerTime& o) {
  gemm += o.gemm;
  attention += o.attention;
  passes += o.passes;
  launches += o.launches;
  return *this;
}

LayerTime LayerTime::operator*(double f) const {
  return {gemm * f, attention * f, passes * f, launches * f};
}

namespace {

struct Sizes {
  int64_t tokens, hidden, qkv, inner, ffn, heads, head, seq, batch;
};

Sizes sizes_of(const Workload& work, const Layout& layout) {
  const ModelShape& m = work.model;
  Sizes s;
  s.seq = work.seq_len;
  s.batch = layout.micro_batch;
  s.tokens = s.batch * s.seq;
  s.hidden = m.hidden;
  s.inner = m.hidden / layout.tp;
  s.qkv = 3 * s.inner;
  s.ffn = m.ffn / layout.tp;
  s.heads = std::max<int64_t>(1, m.heads / layout.tp);
  s.head = m.head_size();
  return s;
}

// Bytes per token of the memory-bound passes of one layer, forward. Norms and residuals touch the
// whole hidden size (or a share of it under sequence parallelism); biases, GELU and the transposes
// of heads touch the tensor-parallel share.
double pass_bytes(const Stack& stack, const Workload& work, const Layout& layout, int element) {
  const double h = static_cast<double>(work.model.hidden);
  const double f = static_cast<double>(work.model.ffn);
  const double t = static_cast<double>(layout.tp);
  const double whole = stack.pass_whole * h / (layout.sequence_parallel ? t : 1.0);
  const double shared = (stack.pass_shared * h + stack.pass_ffn * f) / t;
  return element * (whole + shared);
}

// Bytes moved when our own runtime rounds a layer's operands to 8 bits: one pass finds the largest
// magnitude, another one writes. In the backward pass gradients of outputs are written as they are
// and transposed, and inputs and weights are rounded again.
double rounding_bytes(const Rates& r, const Stack& stack, const Sizes& s, bool backward) {
  if (!r.eight_bit || !stack.own_runtime) return 0;
  const auto d = [](int64_t x) { return static_cast<double>(x); };
  const double inputs = d(s.tokens) * d(2 * s.hidden + s.inner + s.ffn);
  const double gradients = d(s.tokens) * d(s.qkv + s.ffn + 2 * s.hidden);
  const double weights = d(s.hidden) * d(s.qkv + s.inner + 2 * s.ffn);
  const double once = 2 * r.element + 1, both = 2 * r.element + 2;
  return once * (inputs + weights) + (backward ? both * gradients : 0);
}

double attention_seconds(const Rates& r, const Stack& stack, const Sizes& s, bool backward) {
  const double batch = static_cast<double>(s.batch * s.heads);
  const double scores = batch * static_cast<double>(s.seq) * static_cast<double>(s.seq);
  if (stack.attention == AttentionKernel::flash) {
    const double half = stack.causal_flash ? 0.5 : 1.0;
    const double products = backward ? 5.0 : 2.0;
    const double flops = half * products * 2.0 * scores * static_cast<double>(s.head);
    double rate = backward ? r.flash_backward : r.flash_forward;
    if (s.head < 96) rate *= r.flash_64;
    return flops / rate * (1 + r.flash_ramp / static_cast<double>(s.seq));
  }
  const double forward_products =
      gemm_seconds(r, batch, s.seq, s.seq, s.head) + gemm_seconds(r, batch, s.seq, s.head, s.seq);
  // An unfused softmax writes the scores three times: scaled, masked, and as fp32.
  const bool fused = softmax_is_fused(stack, s.heads, s.batch);
  const double bytes = (r.softmax + (fused ? 0.0 : r.unfused)) * scores;
  if (!backward) return forward_products + bytes / r.stream;
  return 2 * forward_products + stack.backward_softmax * bytes / r.stream;
}

}  // namespace

LayerTime layer_forward(const Rates& r, const Stack& stack, const Workload& work,
                        const Layout& layout) {
  const Sizes s = sizes_of(work, layout);
  LayerTime t;
  t.gemm = gemm_seconds(r, 1, s.tokens, s.qkv, s.hidden) +
           gemm_seconds(r, 1, s.tokens, s.hidden, s.inner) +
           gemm_seconds(r, 1, s.tokens, s.ffn, s.hidden) +
           gemm_seconds(r, 1, s.tokens, s.hidden, s.ffn);
  t.attention = attention_seconds(r, stack, s, false);
  t.passes = (static_cast<double>(s.tokens) * pass_bytes(stack, work, layout, r.element) +
              rounding_bytes(r, stack, s, false)) /
             r.stream;
  t.launches = r.gap * stack.kernels_forward;
  return t;
}

LayerTime layer_backward(const Rates& r, const Stack& stack, const Workload& work,
                         const Layout& layout) {
  const Sizes s = sizes_of(work, layout);
  LayerTime t;
  const int64_t products[4][2] = {
      {s.qkv, s.hidden}, {s.hidden, s.inner}, {s.ffn, s.hidden}, {s.hidden, s.ffn}};
  for (const auto& [n, k] : products) {
    t.gemm += gemm_seconds(r, 1, s.tokens, k, n);  // gradient of the input
    t.gemm += gemm_seconds(r, 1, n, k, s.tokens);  // gradient of the weight
  }
  t.attention = attention_seconds(r, stack, s, true);
  t.passes = (stack.backward_passes * static_cast<double>(s.tokens) *
                  pass_bytes(stack, work, layout, r.element) +
              rounding_bytes(r, stack, s, true)) /
             r.stream;
  t.launches = r.gap * stack.kernels_backward;
  return t;
}

double down_product_seconds(const Rates& r, const Workload& work, const Layout& layout) {
  const Sizes s = sizes_of(work, layout);
  return gemm_seconds(r, 1, s.tokens, s.hidden, s.ffn);
}

double gelu_write_seconds(const Rates& r, const Workload& work, const Layout& layout) {
  const Sizes s = sizes_of(work, layout);
  return static_cast<double>(s.tokens * s.ffn * r.element) / r.stream;
}

LayerTime head_both(const Rates& layers, const Stack& stack, const Workload& work,
                    const Layout& layout) {
  Rates r = layers;
  r.matrix = layers.head_matrix;
  const Sizes s = sizes_of(work, layout);
  const int64_t vocab = stack.own_runtime ? padded_vocab(work.model, layout.tp) / layout.tp
                                          : ceil_div(work.model.vocab, layout.tp);
  LayerTime t;
  t.gemm = gemm_seconds(r, 1, s.tokens, vocab, s.hidden) +
           gemm_seconds(r, 1, s.tokens, s.hidden, vocab) +
           gemm_seconds(r, 1, vocab, s.hidden, s.tokens);
  t.passes =
      static_cast<double>(s.tokens) * r.cross_entropy * static_cast<double>(vocab) / r.stream;
  t.launches = r.gap * (stack.kernels_forward + stack.kernels_backward) * 0.25;
  return t;
}

}  // namespace stretto::plan
