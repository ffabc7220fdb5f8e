#include "plan/workload.h"

#include <fmt/format.h>

#include "account/stages.h"

namespace stretto::plan {

std::string describe(const Layout& l) {
  std::string text =
      fmt::format("dp{} tp{} pp{} mbs{} zero{}", l.dp, l.tp, l.pp, l.micro_batch, l.zero);
  if (l.zero_group > 0) text += fmt::format("/{}", l.zero_group);
  if (l.schedule == PipelineSchedule::zero_bubble) text += " zb";
  if (l.schedule == PipelineSchedule::eager_one_f_one_b) text += " eager";
  if (l.interleave > 1) text += fmt::format(" v{}", l.interleave);
  if (l.recompute != Checkpointing::none) text += fmt::format(" {}", name_of(l.recompute));
  if (l.sequence_parallel && l.tp > 1) text += " sp";
  if (l.embedding_counts && l.pp > 1) text += " +emb";
  return text;
}

std::vector<int64_t> stage_layers(const ModelShape& model, const Layout& layout) {
  const std::vector<int64_t> parts =
      even_partition(model.layers, layout.pp * layout.interleave, layout.embedding_counts);
  std::vector<int64_t> ranks(static_cast<size_t>(layout.pp), 0);
  for (size_t i = 0; i < parts.size(); ++i) ranks[i % ranks.size()] += parts[i];
  return ranks;
}

}  // namespace stretto::plan
