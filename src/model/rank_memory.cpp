#include "model/rank_memory.h"

#include <cstring>

namespace stretto {
namespace {

using Labels = std::unordered_map<std::string, Tensor>;

Tensor place(Arena& arena, const TensorSpec& spec, const Labels& labels) {
  if (spec.over.empty()) return arena.take(spec.label, spec.type, spec.shape);
  const auto base = labels.find(spec.over);
  STRETTO_CHECK(base != labels.end(), "'{}' over '{}', which is not there", spec.label, spec.over);
  const Tensor t(base->second.data(), spec.type, spec.shape);
  STRETTO_CHECK(t.bytes() <= base->second.bytes(), "'{}' is larger than '{}'", spec.label,
                spec.over);
  return t;
}

void take_all(Arena& arena, const std::vector<TensorSpec>& plan, Labels& labels) {
  for (const TensorSpec& spec : plan) {
    const bool fresh = labels.emplace(spec.label, place(arena, spec, labels)).second;
    STRETTO_CHECK(fresh, "label '{}' twice in the memory plan", spec.label);
  }
}

Tensor find(const Labels& labels, const std::string& label) {
  const auto it = labels.find(label);
  STRETTO_CHECK(it != labels.end(), "no '{}' in the memory plan", label);
  return it->second;
}

}  // namespace

RankMemory::RankMemory(Backend& backend, const RankShape& shape) : backend_(backend) {
  const auto plan = memory_plan(shape);
  planned_ = memory_totals(plan).total;
  Buffer buffer = backend.allocate(planned_, "the memory plan of this rank");
  const Tensor whole(buffer.data(), DType::u8, {static_cast<int64_t>(planned_)});
  arena_ = Arena(std::move(buffer));
  backend.fill_zero(whole);
  take_all(arena_, plan, tensors_);
  if (shape.workspace.shared > 0) {
    backend.use_workspace(at("work.cpu.shared"), at("work.cpu.worker"));
  }

  const auto outside = host_plan(shape);
  if (outside.empty()) return;
  const size_t bytes = memory_totals(outside).total;
  Buffer host_buffer = backend.allocate_host(bytes, "what is offloaded");
  std::memset(host_buffer.data(), 0, bytes);
  host_arena_ = Arena(std::move(host_buffer));
  take_all(host_arena_, outside, host_tensors_);
}

RankMemory::~RankMemory() { backend_.use_workspace({}, {}); }

Tensor RankMemory::at(const std::string& label) const { return find(tensors_, label); }
Tensor RankMemory::host(const std::string& label) const { return find(host_tensors_, label); }

}  // namespace stretto
