#include "train/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/strict_json.h"
#include "config/serialize.h"
#include "model/host_values.h"

namespace stretto {
namespace {

using nlohmann::json;

// How the optimizer's state is divided among data-parallel ranks.
struct Ownership {
  int64_t parts = 1;  // ranks that share one copy
  int64_t part = 0;
  bool writes = true;  // this rank's copy is the one that is saved
};

Ownership ownership(const Trainer& trainer, const FlatLayout& layout, const RankShape& shape) {
  if (shape.zero == 0) return {1, 0, trainer.at().dp == 0};
  return {layout.dp, trainer.at().dp % layout.dp, trainer.at().dp < layout.dp};
}

// As checkpoints store it.
std::vector<int64_t> shape_of(const ParameterSpec& spec, const ModelShape& model) {
  if (spec.vector()) return {spec.rows};
  return {real_rows(spec, model), spec.columns};
}

// Calls visit(part, parameter, range, place) for everything that this rank's optimizer owns:
// `range` counts positions in the parameter's shard, `place` is where the range begins in the owned
// share of the part.
template <typename Visit>
void each_owned(const FlatLayout& layout, const Ownership& own, Visit&& visit) {
  for (const FlatUnit& unit : layout.units) {
    for (const FlatPart& part : unit.parts) {
      const FlatRange range = part.owned(own.parts, own.part);
      for (const FlatParameter& p : unit.parameters) {
        const int64_t begin = std::max(range.begin, p.offset);
        const int64_t end = std::min(range.end, p.offset + p.count);
        if (begin >= end) continue;
        visit(part, p, FlatRange{begin - p.offset, end - p.offset}, begin - range.begin);
      }
    }
  }
}

struct Copy {
  Backend& backend;   // whose memory holds `source`
  size_t tensor = 0;  // in the shard
  Tensor source;      // the range's elements
  Tensor low;         // where `source` is the upper half of f32 weights: the lower half
  std::vector<ShardPiece> pieces;
  int64_t first_position = 0;
};

void copy_out(const Copy& copy, Backend& state_backend, Shard& shard) {
  // Pieces are contiguous in the rank's memory: only padding rows are left out, and they come last.
  int64_t count = 0;
  for (const ShardPiece& piece : copy.pieces) {
    STRETTO_CHECK(piece.position == copy.first_position + count, "shard pieces with a gap");
    count += piece.count;
  }
  if (count == 0) return;
  if (copy.low.none()) {
    copy.backend.copy_to_host(shard.at(copy.tensor), copy.source.slice(0, count));
  } else {
    join_halves(reinterpret_cast<float*>(shard.at(copy.tensor)), copy.backend,
                copy.source.slice(0, count), state_backend, copy.low.slice(0, count));
  }
}

}  // namespace

void collect_shard(Trainer& trainer, Shard& shard) {
  Gpt& gpt = trainer.gpt();
  const RankShape& shape = gpt.shape();
  const FlatLayout& layout = gpt.layout();
  const Ownership own = ownership(trainer, layout, shape);
  const int64_t tp_rank = trainer.at().tp;
  shard.tensors.clear();
  shard.bytes = 0;
  std::vector<Copy> copies;
  if (own.writes) {
    Optimizer& optimizer = trainer.optimizer();
    const Tensor master = optimizer.state("master");
    const Tensor moments[2] = {optimizer.state("m"), optimizer.state("v")};
    each_owned(
        layout, own,
        [&](const FlatPart& part, const FlatParameter& p, FlatRange range, int64_t place) {
          const bool copy_of_table = p.spec.role == Role::tokens && !shape.first_stage;
          if (copy_of_table || (part.group == Group::tensor && tp_rank != 0)) return;
          const int64_t limit = real_count(p.spec, shape.model);
          const auto pieces =
              shard_pieces(p.spec, shape.tp, tp_rank, range.begin, range.end, limit);
          if (pieces.empty()) return;
          const Placement placement{shape_of(p.spec, shape.model), compress_runs(pieces)};
          const int64_t begin = part.shard_begin(own.parts) + place;
          const int64_t end = begin + range.count();
          const auto add = [&](const std::string& name, DType type, Backend& backend, Tensor source,
                               Tensor low = {}) {
            STRETTO_CHECK(type == source.dtype() || !low.none(), "{} is saved as it is", name);
            copies.push_back({backend, shard.tensors.size(), source, low, pieces, range.begin});
            shard.add(name, placement, type);
          };
          const DType weight = saved_weight(shape.types());
          Backend& state = optimizer.state_backend();
          if (!master.none() && master.dtype() == DType::f32) {
            add(p.spec.name, weight, state, master.slice(begin, end));
          } else {
            add(p.spec.name, weight, trainer.backend(),
                gpt.weights().owned(part).slice(place, place + range.count()),
                master.none() ? Tensor() : master.slice(begin, end));
          }
          for (int i = 0; i < 2; ++i) {
            add(kMomentPrefix[i] + p.spec.name, moments[i].dtype(), state,
                moments[i].slice(begin, end));
          }
        });
  }
  shard.allocate(trainer.state().step);
  for (const Copy& copy : copies) copy_out(copy, trainer.optimizer().state_backend(), shard);
}

std::string state_json(const TrainerState& state, const DataMark& data) {
  const LossScaler::State& scale = state.loss_scale;
  json object{
      {"step", state.step},
      {"updates", state.updates},
      {"consumed_samples", state.consumed_samples},
      {"skipped_total", state.skipped_total},
      {"skipped_in_a_row", state.skipped_in_a_row},
      {"nan_total", state.nan_total},
      {"loss_scale",
       {{"scale", scale.scale}, {"good_steps", scale.good_steps}, {"tolerance", scale.tolerance}}}};
  if (data.tokens > 0) {
    object["data"] = {{"tokens", data.tokens}, {"sample", data.sample}, {"format", data.format}};
  }
  return object.dump();
}

Manifest manifest_of(Trainer& trainer) {
  return {trainer.state().step,
          to_json(trainer.config()).dump(),
          state_json(trainer.state(), trainer.data_mark()),
          {}};
}

namespace {

int64_t count_at(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number_integer()) {
    throw Error(ExitCode::bad_data, fmt::format("checkpoint state: '{}' is missing", key),
                "use another checkpoint");
  }
  return object[key].get<int64_t>();
}

}  // namespace

TrainerState state_of(const Manifest& manifest) {
  const json object = parse_json(manifest.state, "checkpoint state");
  TrainerState state;
  state.step = count_at(object, "step");
  state.updates = count_at(object, "updates");
  state.consumed_samples = count_at(object, "consumed_samples");
  state.skipped_total = count_at(object, "skipped_total");
  state.skipped_in_a_row = count_at(object, "skipped_in_a_row");
  state.nan_total = count_at(object, "nan_total");
  state.loss_scale = {};
  if (!object.contains("loss_scale")) {
    state.loss_scale.scale = 0;
    return state;
  }
  const json& scale = object["loss_scale"];
  state.loss_scale = {1.0, count_at(scale, "good_steps"), count_at(scale, "tolerance")};
  if (scale.contains("scale") && scale["scale"].is_number()) {
    state.loss_scale.scale = scale["scale"].get<double>();
  }
  return state;
}

DataMark data_of(const Manifest& manifest) {
  const json object = parse_json(manifest.state, "checkpoint state");
  if (!object.is_object() || !object.contains("data")) return {};
  const json& data = object["data"];
  const auto text = [&](const char* key) {
    const bool said = data.is_object() && data.contains(key) && data[key].is_string();
    return said ? data[key].get<std::string>() : "";
  };
  return {count_at(data, "tokens"), text("sample"), text("format")};
}

Config config_of(const Manifest& manifest) {
  return config_from_json(parse_json(manifest.config, "checkpoint config"));
}

namespace {

constexpr int64_t kElementsPerRead = kChunkBytes / 4;

// Reads positions [begin, end) of a shard; padding becomes zeros.
void read_positions(const TensorReader& reader, const RankShape& shape, const ParameterSpec& spec,
                    int64_t tp_rank, FlatRange range, const OnProgress& moved,
                    std::vector<float>& out) {
  out.assign(static_cast<size_t>(range.count()), 0.0f);
  const int64_t limit = real_count(spec, shape.model);
  for (const ShardPiece& piece :
       shard_pieces(spec, shape.tp, tp_rank, range.begin, range.end, limit)) {
    float* to = out.data() + (piece.position - range.begin);
    for (int64_t done = 0; done < piece.count; done += kElementsPerRead) {
      const int64_t count = std::min(kElementsPerRead, piece.count - done);
      reader.read(piece.global_begin + done, count, to + done);
      moved();
    }
  }
}

TensorReader checked_reader(const Checkpoint& checkpoint, const std::string& name,
                            const ParameterSpec& spec, const ModelShape& model) {
  TensorReader reader = checkpoint.reader(name);
  if (reader.shape() != shape_of(spec, model)) {
    throw Error(ExitCode::bad_data,
                fmt::format("{}: tensor {} has {} elements, the model needs {}", checkpoint.path(),
                            name, reader.count(), real_count(spec, model)),
                "use a checkpoint of this model");
  }
  return reader;
}

}  // namespace

void read_weights(const Checkpoint& checkpoint, const Gpt& gpt, int64_t tp_rank,
                  const OnProgress& moved, const AssignWeights& assign) {
  const RankShape& shape = gpt.shape();
  const FlatLayout& layout = gpt.layout();
  std::vector<float> values;
  for (size_t u = 0; u < layout.units.size(); ++u) {
    for (const FlatParameter& p : layout.units[u].parameters) {
      const TensorReader reader = checked_reader(checkpoint, p.spec.name, p.spec, shape.model);
      read_positions(reader, shape, p.spec, tp_rank, {0, p.count}, moved, values);
      require_finite(values.data(), p.count, checkpoint.path(), p.spec.name);
      assign(u, p.offset, values.data(), p.count);
    }
  }
}

void load_weights(const Checkpoint& checkpoint, Gpt& gpt) {
  read_weights(checkpoint, gpt, 0, unheard,
               [&](size_t unit, int64_t offset, const float* values, int64_t count) {
                 gpt.weights().assign(unit, offset, values, count);
               });
}

void restore(Trainer& trainer, const Checkpoint& checkpoint, const OnProgress& moved) {
  Gpt& gpt = trainer.gpt();
  Optimizer& optimizer = trainer.optimizer();
  const RankShape& shape = gpt.shape();
  const FlatLayout& layout = gpt.layout();
  const int64_t tp_rank = trainer.at().tp;
  read_weights(checkpoint, gpt, tp_rank, moved,
               [&](size_t unit, int64_t offset, const float* values, int64_t count) {
                 optimizer.assign(unit, offset, values, count);
               });
  std::vector<float> values;
  const Ownership own = ownership(trainer, layout, shape);
  each_owned(layout, own,
             [&](const FlatPart& part, const FlatParameter& p, FlatRange range, int64_t place) {
               const int64_t begin = part.shard_begin(own.parts) + place;
               for (int i = 0; i < 2; ++i) {
                 const Tensor moment =
                     optimizer.state(i == 0 ? "m" : "v").slice(begin, begin + range.count());
                 const std::string name = kMomentPrefix[i] + p.spec.name;
                 if (!checkpoint.has(name)) {
                   optimizer.state_backend().fill_zero(moment);
                   continue;
                 }
                 const TensorReader reader = checked_reader(checkpoint, name, p.spec, shape.model);
                 read_positions(reader, shape, p.spec, tp_rank, range, moved, values);
                 assign_host_values(optimizer.state_backend(), moment, values.data());
               }
             });
  trainer.state() = state_of(checkpoint.manifest());
  if (trainer.state().loss_scale.scale > 0) {
    trainer.scaler().restore(trainer.state().loss_scale);
  } else {
    trainer.state().loss_scale = trainer.scaler().state();
  }
}

}  // namespace stretto
