#include "account/parameters.h"

#include <cmath>

#include "base/ceil_div.h"
#include "base/error.h"

namespace stretto {
namespace {

using Unit = ParameterSpec::Unit;

struct Builder {
  const ModelShape& model;
  std::vector<ParameterSpec> list;
  int64_t layer = -1;
  Unit unit = Unit::embedding;

  void matrix(const std::string& name, int64_t rows, int64_t columns, Split split, double std) {
    list.push_back({name, rows, columns, split, Init::normal, std, true, layer, unit});
  }
  void vector(const std::string& name, int64_t rows, Split split, Init init) {
    list.push_back({name, rows, 1, split, init, 0, false, layer, unit});
  }
  void norm(const std::string& name) {
    vector(name + ".weight", model.hidden, Split::none, Init::ones);
    if (model.bias) vector(name + ".bias", model.hidden, Split::none, Init::zeros);
  }
  void linear(const std::string& name, int64_t rows, int64_t columns, Split split, double std) {
    matrix(name + ".weight", rows, columns, split, std);
    // A bias is cut like the rows. With a row-parallel linear layer every rank holds all of it.
    const Split bias_split = split == Split::columns ? Split::none : split;
    if (model.bias) vector(name + ".bias", rows, bias_split, Init::zeros);
  }
};

constexpr double kInitStd = 0.02;

}  // namespace

int64_t padded_vocab(const ModelShape& model, int64_t tp) {
  const int64_t each = model.vocab / tp >= 1024 ? 64 : 8;
  return round_up(model.vocab, each * tp);
}

std::vector<ParameterSpec> parameter_list(const ModelShape& model, int64_t tp) {
  ModelShape padded = model;
  padded.vocab = padded_vocab(model, tp);
  return parameter_list(padded);
}

std::vector<ParameterSpec> parameter_list(const ModelShape& model) {
  Builder b{model, {}};
  const int64_t V = model.vocab, C = model.hidden, F = model.ffn;
  // The last product of each branch starts with smaller weights, so that the variance of the
  // residual stream does not grow with depth (GPT-2).
  const double residual_std = kInitStd / std::sqrt(2.0 * static_cast<double>(model.layers));

  b.matrix("wte", V, C, Split::rows, kInitStd);
  if (model.position_kind == Positions::learned) {
    b.matrix("wpe", model.positions, C, Split::none, kInitStd);
  }
  b.unit = Unit::layer;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    b.layer = layer;
    const std::string h = fmt::format("h.{}.", layer);
    b.norm(h + "ln1");
    b.linear(h + "attn.qkv", 3 * C, C, Split::qkv, kInitStd);
    b.linear(h + "attn.proj", C, C, Split::columns, residual_std);
    b.norm(h + "ln2");
    b.linear(h + "mlp.up", F, C, Split::rows, kInitStd);
    b.linear(h + "mlp.down", C, F, Split::columns, residual_std);
  }
  b.layer = -1;
  b.unit = Unit::head;
  b.norm("ln_f");
  if (!model.tied_embedding) b.matrix("head", V, C, Split::rows, kInitStd);
  return b.list;
}

int64_t real_rows(const ParameterSpec& spec, const ModelShape& model) {
  return spec.name == "wte" || spec.name == "head" ? model.vocab : spec.rows;
}

int64_t real_count(const ParameterSpec& spec, const ModelShape& model) {
  return real_rows(spec, model) * spec.columns;
}

int64_t parameter_count(const ModelShape& model) {
  int64_t count = 0;
  for (const ParameterSpec& spec : parameter_list(model)) count += spec.count();
  return count;
}

int64_t shard_count(const ParameterSpec& spec, int64_t tp) {
  if (spec.split == Split::none) return spec.count();
  const int64_t cut = spec.split == Split::columns ? spec.columns
                      : spec.split == Split::qkv   ? spec.rows / 3
                                                   : spec.rows;
  STRETTO_CHECK(cut % tp == 0, "{}: {} over {} tensor-parallel ranks", spec.name, cut, tp);
  return spec.count() / tp;
}

std::vector<Run> shard_runs(const ParameterSpec& spec, int64_t tp, int64_t tp_rank) {
  const int64_t count = shard_count(spec, tp);
  std::vector<Run> runs;
  switch (spec.split) {
    case Split::none:
      runs.push_back({0, count});
      break;
    case Split::rows:
      runs.push_back({tp_rank * count, count});
      break;
    case Split::qkv:
      for (int64_t part = 0; part < 3; ++part) {
        runs.push_back({part * (spec.count() / 3) + tp_rank * (count / 3), count / 3});
      }
      break;
    case Split::columns: {
      const int64_t width = spec.columns / tp;
      for (int64_t row = 0; row < spec.rows; ++row) {
        runs.push_back({row * spec.columns + tp_rank * width, width});
      }
      break;
    }
  }
  return runs;
}

}  // namespace stretto
