#include "model/weights.h"

#include "model/host_values.h"

namespace stretto {

Tensor parameter_in(const FlatUnit& unit, Tensor base, const std::string& name) {
  for (const FlatParameter& p : unit.parameters) {
    if (p.spec.name != name) continue;
    const int64_t begin = p.offset - unit.begin;
    const Tensor flat = base.slice(begin, begin + p.count);
    if (p.spec.vector()) return flat;
    const int64_t columns = p.spec.split == Split::columns
                                ? p.spec.columns / (p.spec.count() / p.count)
                                : p.spec.columns;
    return flat.view({p.count / columns, columns});
  }
  return {};
}

LayerOf<Tensor> layer_in(const FlatUnit& unit, Tensor base) {
  const std::string h = unit.name + ".";
  auto find = [&](const char* name) { return parameter_in(unit, base, h + name); };
  return {find("ln1.weight"),    find("ln1.bias"),         find("attn.qkv.weight"),
          find("attn.qkv.bias"), find("attn.proj.weight"), find("attn.proj.bias"),
          find("ln2.weight"),    find("ln2.bias"),         find("mlp.up.weight"),
          find("mlp.up.bias"),   find("mlp.down.weight"),  find("mlp.down.bias")};
}

namespace {

LayerWeights constant(const LayerOf<Tensor>& w) {
  return {w.ln1_weight, w.ln1_bias, w.qkv_weight, w.qkv_bias, w.proj_weight, w.proj_bias,
          w.ln2_weight, w.ln2_bias, w.up_weight,  w.up_bias,  w.down_weight, w.down_bias};
}

}  // namespace

Weights::Weights(Backend& backend, const RankShape& shape, const FlatLayout& layout,
                 RankMemory& memory, Comm& dp)
    : backend_(backend), shape_(shape), layout_(layout), dp_(dp), flat_(memory.at("weights")) {
  if (shape.zero == 3) make_slots(memory);
  for (size_t u = 0; u < layout.units.size(); ++u) {
    const FlatUnit& unit = layout.units[u];
    base_.push_back(shape.zero == 3 ? slot_of(u).buffer.slice(0, unit.count())
                                    : flat_.slice(unit.begin, unit.end));
    layers_.push_back(unit.layer >= 0 ? constant(layer_in(unit, base_[u])) : LayerWeights{});
  }
}

// Layers share two buffers: one is in use while the other is fetched. Every other unit has its own.
void Weights::make_slots(RankMemory& memory) {
  size_t layers = 0;
  for (const FlatUnit& unit : layout_.units) layers += unit.layer >= 0 ? 1 : 0;
  for (size_t i = 0; i < 2 && layers > 0; ++i) {
    slots_.emplace_back().buffer = memory.at(fmt::format("gathered.layer.{}", i));
  }
  layers = 0;
  for (const FlatUnit& unit : layout_.units) {
    if (unit.layer >= 0) {
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
  for (int half = 0; half < 2; ++half) {
    const int64_t begin = half == 0 ? unit.begin : unit.replicated;
    const int64_t end = half == 0 ? unit.replicated : unit.end;
    if (begin == end) continue;
    slot.pending[half] = dp_.start_all_gather(
        slot.buffer.slice(begin - unit.begin, end - unit.begin), owned(u, half));
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
    for (RequestPtr& request : slot_of(u).pending) {
      if (request) request->wait();
      request.reset();
    }
  }
  return base_[u];
}

const LayerWeights& Weights::layer(size_t unit) {
  get(unit);
  return layers_[unit];
}

ConstTensor Weights::parameter(size_t unit, const std::string& name) const {
  return parameter_in(layout_.units[unit], base_[unit], name);
}

Tensor Weights::owned(size_t u, int half) {
  const FlatUnit& unit = layout_.units[u];
  const int64_t dp = layout_.dp, rank = dp_.rank();
  if (shape_.zero == 0) {
    return half == 0 ? flat_.slice(unit.begin, unit.replicated)
                     : flat_.slice(unit.replicated, unit.end);
  }
  if (shape_.zero == 3) {
    return half == 0 ? flat_.slice(unit.begin / dp, unit.replicated / dp)
                     : flat_.slice(unit.replicated / dp, unit.end / dp);
  }
  const FlatRange range = half == 0 ? owned_cut(unit, dp, rank) : owned_replicated(unit, dp, rank);
  return flat_.slice(range.begin, range.end);
}

void Weights::publish() {
  for (Slot& slot : slots_) slot.unit = -1;
  if (shape_.zero == 0 || shape_.zero == 3) return;
  for (size_t u = 0; u < layout_.units.size(); ++u) {
    const FlatUnit& unit = layout_.units[u];
    for (int half = 0; half < 2; ++half) {
      const int64_t begin = half == 0 ? unit.begin : unit.replicated;
      const int64_t end = half == 0 ? unit.replicated : unit.end;
      if (begin == end) continue;
      publishing_.push_back(dp_.start_all_gather(flat_.slice(begin, end), owned(u, half)));
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

size_t Weights::layer_unit(int64_t layer) const { return unit_index(fmt::format("h.{}", layer)); }

size_t Weights::unit_index(const std::string& name) const {
  for (size_t u = 0; u < layout_.units.size(); ++u) {
    if (layout_.units[u].name == name) return u;
  }
  STRETTO_CHECK(false, "no unit '{}' on this rank", name);
}

}  // namespace stretto
