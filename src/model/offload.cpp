#include "model/offload.h"

namespace stretto {

ActivationOffload::ActivationOffload(Backend& backend, const RankShape& shape,
                                     const RankMemory& memory)
    : backend_(backend) {
  const std::vector<TensorSpec> specs = saved_specs(shape);
  const auto bytes = static_cast<int64_t>(memory_totals(specs).total);
  for (size_t s = 0; s < sets_.size(); ++s) {
    // In the plan the tensors of a set follow each other without gaps, so they are copied as one
    // piece.
    const std::string prefix = fmt::format("act.set.{}.", s);
    const Tensor first = memory.at(prefix + specs.front().label);
    const Tensor last = memory.at(prefix + specs.back().label);
    STRETTO_CHECK(static_cast<char*>(last.data()) + specs.back().bytes() ==
                  static_cast<char*>(first.data()) + bytes);
    sets_[s].bytes = Tensor(first.data(), DType::u8, {bytes});
  }
  for (size_t c = 0; c < shape.chunks.size(); ++c) {
    auto& slots = host_.emplace_back();
    for (int64_t slot = 0; slot < shape.in_flight[c]; ++slot) {
      auto& layers = slots.emplace_back();
      for (size_t l = 0; l < shape.chunks[c].size(); ++l) {
        layers.push_back(memory.host(fmt::format("act.{}.{}.{}", c, slot, l)));
      }
    }
  }
}

void* ActivationOffload::host(const Place& place) const {
  return host_[place.chunk][static_cast<size_t>(place.slot)][place.layer].data();
}

void ActivationOffload::follow_compute() {
  backend_.wait(Lane::copy, backend_.record(Lane::compute));
}

void ActivationOffload::claim(const Place& place) {
  Set& set = set_of(place);
  backend_.wait(Lane::compute, set.copied);
  set.holds = place;
  set.filled = true;
  set.arrived = {};
}

void ActivationOffload::store(const Place& place) {
  Set& set = set_of(place);
  follow_compute();
  backend_.start_copy_to_host(Lane::copy, host(place), set.bytes);
  set.copied = backend_.record(Lane::copy);
}

void ActivationOffload::fetch(const Place& place) {
  Set& set = set_of(place);
  if (set.filled && set.holds == place) return;
  follow_compute();
  backend_.start_copy_from_host(Lane::copy, set.bytes, host(place));
  set.copied = set.arrived = backend_.record(Lane::copy);
  set.holds = place;
  set.filled = true;
}

void ActivationOffload::require(const Place& place) {
  fetch(place);
  backend_.wait(Lane::compute, set_of(place).arrived);
}

}  // namespace stretto
