#include "model/weights.h"

#include <algorithm>

#include "model/host_values.h"

namespace stretto {

Tensor parameter_in(const FlatUnit& unit, Tensor base, const FlatParameter& p, int64_t tp) {
  const int64_t begin = p.offset - unit.begin();
  const Tensor flat = base.slice(begin, begin + p.count);
  if (p.spec.vector()) return flat;
  const int64_t columns = shard_columns(p.spec, tp);
  return flat.view({p.count / columns, columns});
}

Tensor parameter_in(const FlatUnit& unit, Tensor base, const std::string& name, int64_t tp) {
  for (const FlatParameter& p : unit.parameters) {
    if (p.spec.name == name) return parameter_in(unit, base, p, tp);
  }
  return {};
}

LayerGrads layer_in(const FlatUnit& unit, Tensor base, int64_t tp) {
  LayerGrads all;
  for (const FlatParameter& p : unit.parameters) {
    all[p.spec.weight] = parameter_in(unit, base, p, tp);
  }
  return all;
}

namespace {

LayerWeights constant(const LayerGrads& weights) {
  LayerWeights all;
  std::copy(weights.values.begin(), weights.values.end(), all.values.begin());
  return all;
}

}  // namespace

Weights::Weights(Backend& backend, const RankShape& shape, const FlatLayout& layout,
                 RankMemory& memory, Comm& dp)
    : backend_(backend), shape_(shape), layout_(layout), dp_(dp), flat_(memory.at("weights")) {
  if (shape.zero == 3) make_slots(memory);
  for (size_t u = 0; u < layout.units.size(); ++u) {
    const FlatUnit& unit = layout.units[u];
    base_.push_back(shape.zero == 3 ? slot_of(u).buffer.slice(0, unit.count())
                                    : flat_.slice(unit.begin(), unit.end()));
    layers_.push_back(unit.role == Role::layer ? constant(layer_in(unit, base_[u], shape.tp))
                                               : LayerWeights{});
  }
}

// Layers share two buffers: one is in use while the other is fetched. Every other unit has its own.
void Weights::make_slots(RankMemory& memory) {
  size_t layers = 0;
  for (const FlatUnit& unit : layout_.units) layers += unit.role == Role::layer ? 1 : 0;
  for (size_t i = 0; i < 2 && layers > 0; ++i) {
    slots_.emplace_back().buffer = memory.at(fmt::format("gathered.layer.{}", i));
  }
  layers = 0;
  for (const FlatUnit& unit : layout_.units) {
    if (unit.role == Role::layer) {
      slot_index_.push_back(layers++ % 2);
    } else {
      slot_index_.push_back(slots_.size());
      slots_.emplace_back().buffer = memory.at("gathered." + unit.name);
    }
  }
}

Weights::Slot& Weights::slot_of(size_t unit) { return slots_[slot_index_[unit]]; }

void Weights::gather(size_t u, Slot& slot) {
  const FlatUnit& unit = layout_.units[u];
  slot.unit = static_cast<int64_t>(u);
  for (const FlatPart& part : unit.parts) {
    if (part.count() == 0) continue;
    slot.pending.push_back(dp_.start_all_gather(
        slot.buffer.slice(part.range.begin - unit.begin(), part.range.end - unit.begin()),
        owned(part)));
  }
}

void Weights::prefetch(size_t unit) {
  if (shape_.zero < 3) return;
  Slot& slot = slot_of(unit);
  if (slot.unit != static_cast<int64_t>(unit)) gather(unit, slot);
}

Tensor Weights::get(size_t u) {
  if (shape_.zero == 3) {
    prefetch(u);
    Slot& slot = slot_of(u);
    for (RequestPtr& request : slot.pending) {
      if (request) request->wait();
    }
    slot.pending.clear();
  }
  return base_[u];
}

const LayerWeights& Weights::layer(size_t unit) {
  get(unit);
  return layers_[unit];
}

ConstTensor Weights::parameter(size_t unit, const std::string& name) const {
  return parameter_in(layout_.units[unit], base_[unit], name, shape_.tp);
}

Tensor Weights::owned(const FlatPart& part) {
  const int64_t dp = layout_.dp;
  if (shape_.zero == 0) return flat_.slice(part.range.begin, part.range.end);
  if (shape_.zero == 3) {
    const int64_t begin = part.shard_begin(dp);
    return flat_.slice(begin, begin + part.count() / dp);
  }
  const FlatRange range = part.owned(dp, dp_.rank());
  return flat_.slice(range.begin, range.end);
}

void Weights::publish() {
  for (Slot& slot : slots_) slot.unit = -1;
  if (shape_.zero == 0 || shape_.zero == 3) return;
  for (const FlatUnit& unit : layout_.units) {
    for (const FlatPart& part : unit.parts) {
      if (part.count() == 0) continue;
      publishing_.push_back(
          dp_.start_all_gather(flat_.slice(part.range.begin, part.range.end), owned(part)));
    }
  }
  for (RequestPtr& request : publishing_) {
    if (request) request->wait();
  }
  publishing_.clear();
}

void Weights::assign(size_t u, int64_t begin, const float* values, int64_t count) {
  if (shape_.zero < 3) {
    assign_host_values(backend_, flat_.slice(begin, begin + count), values);
    return;
  }
  const FlatUnit& unit = layout_.units[u];
  for (const OwnedStretch& s :
       owned_stretches(unit, {begin, begin + count}, layout_.dp, dp_.rank())) {
    assign_host_values(backend_, flat_.slice(s.shard_begin, s.shard_begin + s.count),
                       values + (s.flat_begin - begin));
  }
  for (Slot& slot : slots_) slot.unit = -1;
}

size_t Weights::unit_index(Role role, int64_t layer) const {
  const auto index = layout_.find(role, layer);
  STRETTO_CHECK(index, "no unit of role {}, layer {} on this rank", static_cast<int>(role), layer);
  return *index;
}

}  // namespace stretto
