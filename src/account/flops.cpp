// The conventions: closed formulas per token, split by matrix product.
#include "account/flops.h"

#include <algorithm>
#include <string>

#include "account/parameters.h"
#include "base/error.h"

namespace stretto {
namespace {

// What the formulas need of a model, as doubles: 6N of a 200B model passes 2^32.
struct Sizes {
  double layers, hidden, seq;
  double parameters;
  // Multiplications per token and pass with the weights of each product, all layers together.
  std::array<double, kProducts> weights{};
  std::array<double, kProducts> repeated{};  // those that full recomputation does again
  // Heads times head size, and that times the keys that a token attends to on average; all layers.
  double attention = 0, attended = 0;
};

// Keys per query of a sequence of `seq` tokens, twice the average: a token attends to itself and
// to what comes before it, within its window.
double attended_twice(int64_t seq, int64_t window) {
  const auto t = static_cast<double>(seq);
  if (window <= 0 || window >= seq) return t + 1;
  const auto w = static_cast<double>(window);
  return w * (2 * t - w + 1) / t;
}

Sizes sizes_of(const ModelShape& m, int64_t seq) {
  const auto d = [](int64_t x) { return static_cast<double>(x); };
  Sizes s{d(m.layers), d(m.hidden), d(seq), d(parameter_count(m)), {}};
  each_layer_kind(m, [&](const LayerTable& layer, int64_t layers) {
    for (const ProductSpec& product : layer.products) {
      const double count = d(layers) * product.multiplications();
      s.weights[static_cast<size_t>(product.kind)] += count;
      if (product.repeated) s.repeated[static_cast<size_t>(product.kind)] += count;
    }
    const double width = d(layers) * d(layer.attention_width);
    s.attention += width;
    s.attended += width * attended_twice(seq, layer.window) / 2;
  });
  s.weights[static_cast<size_t>(Product::head)] = d(m.vocab) * d(m.hidden);
  return s;
}

FlopsSplit scaled(FlopsSplit split, double factor) {
  for (double& flops : split.product) flops *= factor;
  split.other *= factor;
  return split;
}

// `factor` FLOPs per token for every weight of a matrix product, those of the head included.
FlopsSplit weight_flops(const Sizes& s, double factor) { return scaled({s.weights}, factor); }

void add_attention(FlopsSplit& split, double per_product) {
  split[Product::scores] += per_product;
  split[Product::values] += per_product;
}

// `factor` times every parameter, plus attention. Parameters that are in no matrix product
// (positions, biases, norms, an untied input embedding) are counted in `other`.
FlopsSplit by_parameters(const Sizes& s, double factor, double attention) {
  FlopsSplit split = weight_flops(s, factor);
  split.other = factor * s.parameters - split.total();
  add_attention(split, attention);
  return split;
}

FlopsPerToken mpt(const Sizes& s, bool recompute) {
  FlopsPerToken flops{by_parameters(s, 6, 6 * s.attention * s.seq), {}};
  if (recompute) flops.recompute = scaled(flops.model, 1.0 / 3);
  return flops;
}

FlopsPerToken mosaicgpt(const Sizes& s, bool recompute) {
  FlopsPerToken flops{by_parameters(s, 6, 2 * s.attention * s.seq), {}};
  if (recompute) flops.recompute = by_parameters(s, 2, s.attention * s.seq);
  return flops;
}

// The formula assumes a feed-forward width of 4C. Its V/16LC is exact only with recomputation:
// without, the head counts 4.5 V C instead of 6 V C. Published figures use it, so it is kept.
FlopsPerToken megatron(const Sizes& s, bool recompute) {
  FlopsPerToken flops{weight_flops(s, 6), {}};
  flops.model[Product::head] *= 0.75;
  add_attention(flops.model, 6 * s.attention * s.seq);
  if (recompute) flops.recompute = scaled(flops.model, 1.0 / 3);
  return flops;
}

// P = 12 L C^2 + 7 L C + 6 L C tp + 2 C tp pp: the parameters of one rank without embeddings, times
// tp x pp. So what every rank holds (norms, two biases) is counted once per rank.
FlopsPerToken megatron_old(const Sizes& s, RunCut ranks, bool recompute) {
  const double tp = static_cast<double>(ranks.tp), pp = static_cast<double>(ranks.pp);
  const double l = s.layers, c = s.hidden;
  FlopsPerToken flops{weight_flops(s, 6), {}};
  flops.model[Product::head] = 0;
  flops.model.other = 6 * (7 * l * c + 6 * l * c * tp + 2 * c * tp * pp);
  if (recompute) flops.recompute = scaled(flops.model, 1.0 / 3);
  return flops;
}

// `times`: how often the forward pass of the layers is repeated.
FlopsPerToken causal(const Sizes& s, int times, bool fused) {
  const double attention = 2 * s.attended;
  FlopsPerToken flops{weight_flops(s, 6), {}};
  add_attention(flops.model, 3 * attention);
  flops.recompute = scaled({s.repeated}, 2 * times);
  add_attention(flops.recompute, times * attention);
  if (fused) flops.recompute[Product::scores] += attention;
  return flops;
}

ModelShape with_ffn(ModelShape model, int64_t ffn) {
  model.ffn = ffn;
  return model;
}

bool is_attention(Product p) { return p == Product::scores || p == Product::values; }

}  // namespace

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

FlopsPerToken flops_per_token(Convention convention, const ModelShape& model, int64_t seq,
                              Checkpointing checkpointing, RunCut cut) {
  const bool megatron_like =
      convention == Convention::megatron || convention == Convention::megatron_old;
  const Sizes s = sizes_of(megatron_like ? with_ffn(model, 4 * model.hidden) : model, seq);
  const bool recompute = checkpointing == Checkpointing::full;
  switch (convention) {
    case Convention::mpt:
      return mpt(s, recompute);
    case Convention::mosaicgpt:
      return mosaicgpt(s, recompute);
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
