#include "plan/workload.h"

#include <fmt/format.h>

#include <algorithm>

namespace stretto::plan {

RankParameters::RankParameters(const ModelShape& model, int64_t tp) {
  const auto h = static_cast<double>(model.hidden), f = static_cast<double>(model.ffn);
  const auto t = static_cast<double>(tp);
  layer = (4 * h * h + 2 * h * f + 4 * h + f) / t + 9 * h;
  embedding = static_cast<double>(model.vocab) * h / t;
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
  if (l.partition.ends_count && l.pp > 1) text += " +emb";
  if (!l.partition.listed.empty()) text += " " + l.partition.words();
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
  if (any([](const Layout& l) { return l.partition.ends_count && l.pp > 1; })) {
    text += "; +emb: the embedding counts as a layer";
  }
  return text;
}

std::vector<int64_t> stage_layers(const ModelShape& model, const Layout& layout) {
  const std::vector<int64_t> parts = layout.partition.over(model.layers, layout.stages());
  std::vector<int64_t> ranks(static_cast<size_t>(layout.pp), 0);
  for (size_t i = 0; i < parts.size(); ++i) ranks[i % ranks.size()] += parts[i];
  return ranks;
}

}  // namespace stretto::plan
