#include "plan/workload.h"

#include <fmt/format.h>

#include <algorithm>

namespace stretto::plan {

std::string describe(const Layout& l) {
  std::string text =
      fmt::format("dp{} tp{} pp{} mbs{} zero{}", l.dp, l.tp, l.pp, l.micro_batch, l.zero);
  if (l.interleave > 1) text += fmt::format(" v{}", l.interleave);
  if (l.recompute != Checkpointing::none) text += fmt::format(" {}", name_of(l.recompute));
  if (l.sequence_parallel && l.tp > 1) text += " sp";
  if (l.embedding_counts && l.pp > 1) text += " +emb";
  return text;
}

std::vector<int64_t> stage_layers(const ModelShape& model, const Layout& layout) {
  const int64_t stages = layout.pp * layout.interleave;
  const int64_t extra = layout.embedding_counts && layout.pp > 1 ? 1 : 0;
  // Units are cut into `stages` runs; the first runs take the remainder. Embedding and head may
  // weigh as one unit each, on the first and last run.
  const int64_t units = model.layers + 2 * extra;
  std::vector<int64_t> ranks(static_cast<size_t>(layout.pp), 0);
  for (int64_t i = 0; i < stages; ++i) {
    int64_t share = units / stages + (i < units % stages ? 1 : 0);
    if (i == 0) share -= extra;
    if (i + 1 == stages) share -= extra;
    ranks[static_cast<size_t>(i % layout.pp)] += std::max<int64_t>(0, share);
  }
  return ranks;
}

}  // namespace stretto::plan
