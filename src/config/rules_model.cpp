// Rules about the model's shape and the arithmetic it runs in.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "account/gpu_limits.h"
#include "base/ceil_div.h"
#include "config/rule_set.h"

namespace stretto {
namespace {

void hidden_heads(const Config& c, Report& report) {
  if (c.model.hidden % c.model.heads == 0) return;
  report.add("model.heads", "does not divide " + shown(c, "model.hidden"),
             "use " + divisors_near(c.model.hidden, c.model.heads));
}

// What ModelShape can describe and the engine does not run yet.
void engine(const Config& c, Report& report) {
  const ModelShape& m = c.model;
  const Biases& b = m.biases;
  const bool mixed_biases = b != Biases::all_or_none(b.mlp);
  const std::pair<bool, const char*> beyond[] = {
      {m.norm != Norm::layer, "RMSNorm"},
      {m.norm_eps != ModelShape().norm_eps, "LayerNorm with another epsilon than 1e-5"},
      {m.order != Order::pre, "norms elsewhere than before each branch"},
      {m.qk_norm != QkNorm::none, "norms of queries and keys"},
      {m.position_kind == Positions::rope, "rotary positions"},
      {m.position_kind == Positions::none, "no positions"},
      {m.mlp != Mlp::gelu_tanh && m.mlp != Mlp::gelu, "an MLP without GELU"},
      {m.key_heads() != m.heads, "grouped heads"},
      {m.q_width() != m.hidden, "heads whose sizes do not add up to the hidden size"},
      {mixed_biases, "biases in some layers only"},
      {m.experts.count > 0, "experts"},
      {std::any_of(m.pattern.begin(), m.pattern.end(),
                   [](const LayerKind& k) { return k.window > 0; }),
       "windows of attention"},
  };
  for (const auto& [has, what] : beyond) {
    if (!has) continue;
    report.add("model.name", fmt::format("has {}, which can be counted but not run", what),
               "choose a model with LayerNorm, GELU, equal heads, and learned positions or ALiBi");
  }
}

void positions(const Config& c, Report& report) {
  if (c.seq_len <= c.model.positions) return;
  report.add(
      "seq_len", "is longer than " + shown(c, "model.positions"),
      fmt::format("use at most {}, or set model.positions={}", c.model.positions, c.seq_len));
}

void head_size(const Config& c, Report& report) {
  if (c.model.hidden % c.model.heads != 0 || c.model.head_size() % 8 == 0) return;
  report.add("model.heads",
             fmt::format("gives heads of {} with {}; sizes that are multiples of 8 are faster",
                         c.model.head_size(), shown(c, "model.hidden")),
             fmt::format("choose heads so that hidden / heads is {}",
                         multiples_near(c.model.head_size(), 8)));
}

void tile_quantisation(const Config& c, Report& report) {
  if (c.device != Device::cuda || c.model.hidden % 128 == 0) return;
  report.add("model.hidden", "is not a multiple of 128, the tile of GPU matrix products",
             "use " + multiples_near(c.model.hidden, 128));
}

// Head sizes that the GPU's attention kernels can do.
void gpu_heads(const Config& c, Report& report) {
  if (c.device != Device::cuda || c.model.heads < 1) return;
  const int64_t size = c.model.hidden / c.model.heads, heads = c.model.heads / c.parallel.tp;
  if (size > kGpuHeadSize) {
    report.add("model.heads",
               fmt::format("gives heads of size {}; a GPU takes up to {}", size, kGpuHeadSize),
               fmt::format("use at least {} heads, or device=cpu",
                           ceil_div(c.model.hidden, kGpuHeadSize)));
  }
  if (heads > kGpuHeads) {
    report.add("model.heads",
               fmt::format("is {} on a rank; a GPU takes up to {}", heads, kGpuHeads),
               "use fewer and larger heads, more parallel.tp, or device=cpu");
  }
}

void gpu_sequences(const Config& c, Report& report) {
  if (c.device != Device::cuda || c.micro_batch <= kGpuSequences) return;
  report.add("micro_batch",
             fmt::format("is more than {} sequences, what a GPU takes at once", kGpuSequences),
             fmt::format("use at most {}, or device=cpu", kGpuSequences));
}

// A block keeps a row of LayerNorm's gradient in registers, in packs of 16 bytes if possible, which
// limits its length.
void gpu_hidden(const Config& c, Report& report) {
  if (c.device != Device::cuda) return;
  const auto pack = static_cast<int64_t>(16 / dtype_size(types_of(c.precision).compute));
  const int64_t most = c.model.hidden % pack == 0 ? 4096 * pack : 8192;
  if (c.model.hidden <= most) return;
  report.add("model.hidden",
             fmt::format("is more than {}, what a GPU takes with {}{}", most, shown(c, "precision"),
                         most == 8192 ? fmt::format(" and no multiple of {}", pack) : ""),
             "use less, or device=cpu");
}

void gradient_dtype(const Config& c, Report& report) {
  const PrecisionTypes types = types_of(c.precision);
  if (c.gradient_dtype == types.gradient || c.gradient_dtype == DType::f32) return;
  if (types.compute != DType::bf16) {
    report.add("gradient_dtype", "needs products in bf16, but this is " + shown(c, "precision"),
               "set gradient_dtype=f32, or precision=amp_bf16");
  } else if (c.deterministic) {
    report.add("gradient_dtype",
               "rounds sums that depend on parallel.dp, but this is " + shown(c, "deterministic"),
               "set gradient_dtype=f32, or deterministic=false");
  }
}

void precision_device(const Config& c, Report& report) {
  if (c.precision != Precision::amp_fp8 || c.device == Device::cuda) return;
  report.add("precision", "is emulated, and slow, with " + shown(c, "device"),
             "set device=cuda, or precision=amp_bf16");
}

void tf32_device(const Config& c, Report& report) {
  if (!c.tf32 || c.device == Device::cuda) return;
  report.add("tf32", "exists on GPUs only, but this is " + shown(c, "device"),
             "set tf32=false, or device=cuda");
}

void gpu_clock_device(const Config& c, Report& report) {
  if (c.gpu_clock == 0 || c.device == Device::cuda) return;
  report.add("gpu_clock", "limits the clock of a GPU, but this is " + shown(c, "device"),
             "set gpu_clock=0, or device=cuda");
}

void deterministic_repeatable(const Config& c, Report& report) {
  if (c.repeatable || !c.deterministic) return;
  report.add("repeatable", "contradicts " + shown(c, "deterministic"),
             "set repeatable=true, or deterministic=false");
}

void offload_device(const Config& c, Report& report) {
  if (c.device == Device::cuda) return;
  const char* fix = "remove it, or set device=cuda";
  const std::string why = "saves nothing with " + shown(c, "device") + ": memory is host memory";
  if (c.activation_offload) report.add("activation_offload", why, fix);
  if (c.optimizer_offload) report.add("optimizer_offload", why, fix);
}

constexpr Rule kRules[] = {
    {"hidden-heads", Severity::error, hidden_heads},
    {"engine", Severity::error, engine},
    {"positions", Severity::error, positions},
    {"gpu-heads", Severity::error, gpu_heads},
    {"gpu-sequences", Severity::error, gpu_sequences},
    {"gpu-hidden", Severity::error, gpu_hidden},
    {"gradient-dtype", Severity::error, gradient_dtype},
    {"precision-device", Severity::advice, precision_device},
    {"tf32-device", Severity::error, tf32_device},
    {"gpu-clock-device", Severity::error, gpu_clock_device},
    {"deterministic-repeatable", Severity::error, deterministic_repeatable},
    {"head-size", Severity::advice, head_size},
    {"tile-quantisation", Severity::advice, tile_quantisation},
    {"offload-device", Severity::advice, offload_device},
};

}  // namespace

std::span<const Rule> model_rules() { return kRules; }

}  // namespace stretto
