#include "account/parameters.h"

#include <numeric>

#include "base/ceil_div.h"
#include "base/error.h"

namespace stretto {
namespace {

constexpr double kInitStd = 0.02;

ParameterSpec table(const char* name, int64_t rows, int64_t columns, Role role, bool words) {
  const Cut cut = words ? Cut::rows(rows) : Cut::none();
  return {name, rows, columns, cut, Init::normal, kInitStd, true, role, -1, {}, words};
}

ParameterSpec norm_vector(const char* name, int64_t rows, Init init) {
  return {name, rows, 1, Cut::none(), init, 0, false, Role::head};
}

ParameterSpec of_layer(const WeightSpec& w, int64_t layer) {
  const bool matrix = w.init == Init::normal;
  return {fmt::format("h.{}.{}", layer, name_of(w.role)),
          w.rows,
          w.columns,
          w.cut,
          w.init,
          w.init_std,
          matrix,
          Role::layer,
          layer,
          w.role};
}

int64_t count_of(const LayerTable& layer) {
  int64_t count = 0;
  for (const WeightSpec& w : layer.weights) count += w.count();
  return count;
}

// What stands before and after the layers, in the order of the model: the tables, then the rest.
std::vector<ParameterSpec> ends(const ModelShape& m) {
  std::vector<ParameterSpec> list = {table("wte", m.vocab, m.hidden, Role::tokens, true)};
  if (m.position_kind == Positions::learned) {
    list.push_back(table("wpe", m.positions, m.hidden, Role::positions, false));
  }
  list.push_back(norm_vector("ln_f.weight", m.hidden, Init::ones));
  if (m.biases.norm && m.norm == Norm::layer) {
    list.push_back(norm_vector("ln_f.bias", m.hidden, Init::zeros));
  }
  if (!m.tied_embedding) list.push_back(table("head", m.vocab, m.hidden, Role::head, true));
  return list;
}

// Rows of the blocks, which repeat down the parameter.
int64_t period(const Cut& cut) {
  return std::accumulate(std::begin(cut.blocks), std::end(cut.blocks), int64_t{0});
}

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
  std::vector<ParameterSpec> list, after;
  for (ParameterSpec& spec : ends(model)) {
    (spec.role == Role::head ? after : list).push_back(std::move(spec));
  }
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    for (const WeightSpec& w : layer_table(model, layer).weights) {
      list.push_back(of_layer(w, layer));
    }
  }
  list.insert(list.end(), after.begin(), after.end());
  return list;
}

int64_t real_rows(const ParameterSpec& spec, const ModelShape& model) {
  return spec.words ? model.vocab : spec.rows;
}

int64_t real_count(const ParameterSpec& spec, const ModelShape& model) {
  return real_rows(spec, model) * spec.columns;
}

int64_t parameter_count(const ModelShape& model) {
  int64_t count = 0;
  for (const ParameterSpec& spec : ends(model)) count += spec.count();
  each_layer_kind(
      model, [&](const LayerTable& layer, int64_t layers) { count += layers * count_of(layer); });
  return count;
}

int64_t layer_parameter_count(const ModelShape& model, int64_t layer) {
  return count_of(layer_table(model, layer));
}

int64_t shard_count(const ParameterSpec& spec, int64_t tp) {
  const auto check = [&](int64_t cut) {
    STRETTO_CHECK(cut % tp == 0, "{}: {} over {} tensor-parallel ranks", spec.name, cut, tp);
  };
  switch (spec.cut.along) {
    case Cut::Along::none:
      return spec.count();
    case Cut::Along::rows:
      for (const int64_t block : spec.cut.blocks) check(block);
      break;
    case Cut::Along::columns:
      check(spec.columns);
      break;
  }
  return spec.count() / tp;
}

int64_t shard_columns(const ParameterSpec& spec, int64_t tp) {
  return spec.cut.along == Cut::Along::columns ? spec.columns / tp : spec.columns;
}

std::vector<Run> shard_runs(const ParameterSpec& spec, int64_t tp, int64_t tp_rank) {
  const int64_t count = shard_count(spec, tp);
  std::vector<Run> runs;
  switch (spec.cut.along) {
    case Cut::Along::none:
      runs.push_back({0, count});
      break;
    case Cut::Along::rows:
      for (int64_t first = 0; first < spec.rows; first += period(spec.cut)) {
        int64_t row = first;
        for (const int64_t block : spec.cut.blocks) {
          if (block == 0) continue;
          const int64_t rows = block / tp;
          runs.push_back({(row + tp_rank * rows) * spec.columns, rows * spec.columns});
          row += block;
        }
      }
      break;
    case Cut::Along::columns: {
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
