#include "plan/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "account/stages.h"

namespace stretto::plan {

bool can_interleave(const Workload& work, const Layout& l) {
  return work.model.layers % (l.pp * l.interleave) == 0 && micro_batches(work, l) % l.pp == 0;
}

bool can_be_cut(const Workload& work, const Layout& l) {
  const ModelShape& m = work.model;
  return work.global_batch % (l.dp * l.micro_batch) == 0 && l.pp <= m.layers &&
         m.heads % l.tp == 0 && m.hidden % l.tp == 0 && m.ffn % l.tp == 0 &&
         (!l.sequence_parallel || work.seq_len % l.tp == 0) &&
         (l.interleave == 1 || can_interleave(work, l));
}

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

std::string legend_of(const std::vector<Layout>& layouts) {
  const auto any = [&](const auto& has) {
    return std::any_of(layouts.begin(), layouts.end(), has);
  };
  std::string text = "mbs: micro-batch";
  if (any([](const Layout& l) { return l.zero_group > 0; })) text += "; /N: ZeRO in groups of N";
  if (any([](const Layout& l) { return l.schedule == PipelineSchedule::zero_bubble; })) {
    text += "; zb: zero bubble";
  }
  if (any([](const Layout& l) { return l.interleave > 1; })) text += "; v: chunks per rank";
  if (any([](const Layout& l) { return l.recompute != Checkpointing::none; })) {
    text += "; gelu, selective, full: recomputation";
  }
  if (any([](const Layout& l) { return l.sequence_parallel && l.tp > 1; })) {
    text += "; sp: sequence parallel";
  }
  if (any([](const Layout& l) { return l.embedding_counts && l.pp > 1; })) {
    text += "; +emb: the embedding counts as a layer";
  }
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
