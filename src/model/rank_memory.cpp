#include "model/rank_memory.h"

namespace stretto {

RankMemory::RankMemory(Backend& backend, const RankShape& shape) {
  const auto plan = memory_plan(shape);
  planned_ = memory_totals(plan).total;
  Buffer buffer = backend.allocate(planned_, "the memory plan of this rank");
  const Tensor whole(buffer.data(), DType::u8, {static_cast<int64_t>(planned_)});
  arena_ = Arena(std::move(buffer));
  backend.fill_zero(whole);
  for (const TensorSpec& spec : plan) {
    const bool fresh =
        tensors_.emplace(spec.label, arena_.take(spec.label, spec.type, spec.shape)).second;
    STRETTO_CHECK(fresh, "label '{}' twice in the memory plan", spec.label);
  }
}

Tensor RankMemory::at(const std::string& label) const {
  const auto it = tensors_.find(label);
  STRETTO_CHECK(it != tensors_.end(), "no '{}' in the memory plan", label);
  return it->second;
}

}  // namespace stretto
