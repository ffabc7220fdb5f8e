#include "model/activations.h"

namespace stretto {
namespace {

class Finder {
 public:
  Finder(const RankMemory& memory, const RankShape& shape, int64_t batch)
      : memory_(memory), shape_(shape), batch_(batch), table_(layer_table(shape.model, 0)) {}

  Tensor at(const std::string& label) const { return fit(shape_, memory_.at(label), batch_); }

  LayerActivations layer(const std::string& prefix) const {
    LayerActivations a;
    for (const SavedSpec& spec : table_.saved) {
      const bool kept = spec.kept(shape_.checkpointing);
      a[spec.slot] = at((kept ? prefix : std::string("again.")) + name_of(spec.slot));
    }
    return a;
  }

  LayerGradients gradients(const std::string& prefix) const {
    LayerGradients g;
    for (const InnerSpec& spec : table_.inner) {
      if (shape_.split_backward || !spec.split_only) g[spec.slot] = at(prefix + name_of(spec.slot));
    }
    return g;
  }

 private:
  const RankMemory& memory_;
  const RankShape& shape_;
  int64_t batch_;
  LayerTable table_;
};

}  // namespace

Tensor fit(const RankShape& shape, Tensor t, int64_t batch) {
  const Shape& s = t.shape();
  const int64_t first = s[0] / shape.micro_batch * batch;
  switch (s.dims()) {
    case 1:
      return {t.data(), t.dtype(), {first}};
    case 2:
      return {t.data(), t.dtype(), {first, s[1]}};
    default:
      return {t.data(), t.dtype(), {first, s[1], s[2]}};
  }
}

ChunkActivations chunk_activations(const RankMemory& memory, const RankShape& shape, size_t chunk,
                                   int64_t slot, int64_t batch) {
  const Finder find(memory, shape, batch);
  ChunkActivations a;
  a.tokens = find.at(fmt::format("tokens.{}.{}", chunk, slot));
  a.targets = find.at(fmt::format("targets.{}.{}", chunk, slot));
  for (size_t l = 0; l < shape.chunks[chunk].size(); ++l) {
    // Without training one set of activations serves all layers in turn.
    const size_t set = shape.train ? l : 0;
    a.layers.push_back(find.layer(
        shape.offloads() ? fmt::format("act.set.{}.", static_cast<int64_t>(l) % kOffloadSets)
                         : fmt::format("act.{}.{}.{}.", chunk, slot, set)));
    if (!shape.train) continue;
    a.gradients.push_back(find.gradients(
        shape.split_backward ? fmt::format("grad.{}.{}.{}.", chunk, slot, l) : "grad."));
  }
  if (shape.last_stage && chunk + 1 == shape.chunks.size()) {
    const std::string head = fmt::format("head.{}.", slot);
    a.head = {find.at(head + "stream"), find.at(head + "norm"), find.at(head + "mean"),
              find.at(head + "rstd")};
  } else {
    a.output = find.at(fmt::format("output.{}.{}", chunk, slot));
  }
  return a;
}

}  // namespace stretto
