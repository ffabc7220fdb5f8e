// The conventions: closed formulas per token, split by matrix product.
#include "account/flops.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace stretto {
namespace {

struct Sizes {  // the letters of model_shape.h, as doubles: 6N of a 200B model passes 2^32
  double l, c, h, v, p, f, t;
};

Sizes sizes_of(const ModelShape& s, int64_t seq) {
  const auto d = [](int64_t x) { return static_cast<double>(x); };
  return {d(s.layers), d(s.hidden), d(s.heads), d(s.vocab), d(s.positions), d(s.ffn), d(seq)};
}

// `factor` FLOPs per token for every weight of a matrix product, those of the head included.
FlopsSplit weight_flops(const Sizes& s, double factor) {
  FlopsSplit split;
  split[Product::qkv] = factor * s.l * 3 * s.c * s.c;
  split[Product::proj] = factor * s.l * s.c * s.c;
  split[Product::up] = factor * s.l * s.c * s.f;
  split[Product::down] = factor * s.l * s.f * s.c;
  split[Product::head] = factor * s.v * s.c;
  return split;
}

void add_attention(FlopsSplit& split, double per_product) {
  split[Product::scores] += per_product;
  split[Product::values] += per_product;
}

FlopsSplit scaled(FlopsSplit split, double factor) {
  for (double& flops : split.product) flops *= factor;
  split.other *= factor;
  return split;
}

// `factor` times every parameter, plus attention. Parameters that are in no matrix product
// (positions, biases, norms, an untied input embedding) are counted in `other`.
FlopsSplit by_parameters(const ModelShape& model, const Sizes& s, double factor, double attention) {
  FlopsSplit split = weight_flops(s, factor);
  split.other = factor * static_cast<double>(parameter_formula(model)) - split.total();
  add_attention(split, attention);
  return split;
}

FlopsPerToken mpt(const ModelShape& model, const Sizes& s, bool recompute) {
  FlopsPerToken flops{by_parameters(model, s, 6, 6 * s.l * s.c * s.t), {}};
  if (recompute) flops.recompute = scaled(flops.model, 1.0 / 3);
  return flops;
}

FlopsPerToken mosaicgpt(const ModelShape& model, const Sizes& s, bool recompute) {
  FlopsPerToken flops{by_parameters(model, s, 6, 2 * s.l * s.c * s.t), {}};
  if (recompute) flops.recompute = by_parameters(model, s, 2, s.l * s.c * s.t);
  return flops;
}

// The formula assumes a feed-forward width of 4C. Its V/16LC is exact only with recomputation:
// without, the head counts 4.5 V C instead of 6 V C. Published figures use it, so it is kept.
FlopsPerToken megatron(const Sizes& sizes, bool recompute) {
  Sizes s = sizes;
  s.f = 4 * s.c;
  FlopsPerToken flops{weight_flops(s, 6), {}};
  flops.model[Product::head] = 4.5 * s.v * s.c;
  add_attention(flops.model, 6 * s.l * s.c * s.t);
  if (recompute) flops.recompute = scaled(flops.model, 1.0 / 3);
  return flops;
}

// P = 12 L C^2 + 7 L C + 6 L C tp + 2 C tp pp: the parameters of one rank without embeddings, times
// tp x pp. So what every rank holds (norms, two biases) is counted once per rank.
FlopsPerToken megatron_old(const Sizes& sizes, RunCut ranks, bool recompute) {
  Sizes s = sizes;
  s.f = 4 * s.c;
  const double tp = static_cast<double>(ranks.tp), pp = static_cast<double>(ranks.pp);
  FlopsPerToken flops{weight_flops(s, 6), {}};
  flops.model[Product::head] = 0;
  flops.model.other = 6 * (7 * s.l * s.c + 6 * s.l * s.c * tp + 2 * s.c * tp * pp);
  if (recompute) flops.recompute = scaled(flops.model, 1.0 / 3);
  return flops;
}

// A token attends to (T + 1) / 2 tokens on average, itself included, which makes (T + 1) C FLOPs
// per product and layer, forward. `times`: how often the forward pass of the layers is repeated.
FlopsPerToken causal(const Sizes& s, int times, bool fused) {
  const double attention = s.l * s.c * (s.t + 1);
  FlopsPerToken flops{weight_flops(s, 6), {}};
  add_attention(flops.model, 3 * attention);
  flops.recompute = weight_flops(s, 2 * times);
  flops.recompute[Product::down] = flops.recompute[Product::head] = 0;
  add_attention(flops.recompute, times * attention);
  if (fused) flops.recompute[Product::scores] += attention;
  return flops;
}

bool is_attention(Product p) { return p == Product::scores || p == Product::values; }

}  // namespace

const char* name_of(Product product) {
  constexpr const char* kNames[] = {"qkv", "scores", "values", "proj", "up", "down", "head"};
  return kNames[static_cast<int>(product)];
}

const char* name_of(Convention convention) {
  constexpr const char* kNames[] = {"mpt",          "mosaicgpt", "megatron",
                                    "megatron-old", "causal",    "hardware"};
  return kNames[static_cast<int>(convention)];
}

Convention convention_from_name(std::string_view name) {
  std::string names;
  for (Convention convention : kConventions) {
    if (name == name_of(convention)) return convention;
    names += (names.empty() ? "" : ", ") + std::string(name_of(convention));
  }
  throw Error(ExitCode::usage, fmt::format("no FLOP convention is called '{}'", name),
              "use one of " + names);
}

double FlopsSplit::total() const {
  double sum = other;
  for (double flops : product) sum += flops;
  return sum;
}

double FlopsSplit::without_attention() const {
  double sum = other;
  for (int i = 0; i < kProducts; ++i) {
    if (!is_attention(static_cast<Product>(i))) sum += product[static_cast<size_t>(i)];
  }
  return sum;
}

int64_t parameter_formula(const ModelShape& s) {
  const int64_t c = s.hidden, f = s.ffn;
  const int64_t norm = s.bias ? 2 * c : c;
  const int64_t biases = s.bias ? 3 * c + c + f + c : 0;
  const int64_t layer = 4 * c * c + 2 * c * f + biases + 2 * norm;
  const int64_t positions = s.position_kind == Positions::learned ? s.positions * c : 0;
  const int64_t tables = s.tied_embedding ? 1 : 2;
  return tables * s.vocab * c + positions + s.layers * layer + norm;
}

FlopsPerToken flops_per_token(Convention convention, const ModelShape& model, int64_t seq,
                              Checkpointing checkpointing, RunCut cut) {
  const Sizes s = sizes_of(model, seq);
  const bool recompute = checkpointing == Checkpointing::full;
  switch (convention) {
    case Convention::mpt:
      return mpt(model, s, recompute);
    case Convention::mosaicgpt:
      return mosaicgpt(model, s, recompute);
    case Convention::megatron:
      return megatron(s, recompute);
    case Convention::megatron_old:
      return megatron_old(s, cut, recompute);
    case Convention::causal:
      return causal(s, recompute ? 1 : 0, false);
    case Convention::hardware:
      return causal(s, recompute ? recomputations(cut.split_backward) : 0, true);
  }
  throw Error(ExitCode::internal, "unknown FLOP convention");
}

std::optional<Utilization> utilization(const FlopsPerToken& flops, double tokens_per_second,
                                       double devices, std::optional<double> peak) {
  if (!peak || *peak <= 0 || devices <= 0) return std::nullopt;
  const double scale = tokens_per_second / (devices * *peak);
  const double star = flops.model.without_attention();
  return Utilization{flops.model_total() * scale, star * scale, flops.hardware_total() * scale,
                     (star + flops.recompute.without_attention()) * scale};
}

}  // namespace stretto
