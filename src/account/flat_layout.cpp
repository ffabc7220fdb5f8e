#include "account/flat_layout.h"

#include <algorithm>
#include <numeric>

#include "base/ceil_div.h"
#include "base/error.h"

namespace stretto {
namespace {

// Elements. With it every owned range has cache lines of its own, even with two-byte types.
constexpr int64_t kGrain = 64;

int64_t padded(int64_t count, int64_t dp) { return round_up(count, kGrain * pieces_per_part(dp)); }

// Appends a part to the unit; decayed parameters first.
void add_part(FlatLayout& layout, FlatUnit& unit, Group group, std::vector<ParameterSpec> specs,
              int64_t tp) {
  std::stable_partition(specs.begin(), specs.end(), [](const auto& s) { return s.decay; });
  const int64_t begin = layout.total;
  for (ParameterSpec& spec : specs) {
    const int64_t count = shard_count(spec, tp);
    unit.parameters.push_back({std::move(spec), layout.total, count});
    layout.total += round_up(count, kGrain);
  }
  layout.total = begin + padded(layout.total - begin, layout.dp);
  const auto parts = static_cast<int64_t>(unit.parts.size());
  unit.parts.push_back({group, {begin, layout.total}, layout.part_count() + parts});
}

}  // namespace

FlatRange FlatPart::owned(int64_t dp, int64_t rank) const {
  const int64_t size = count() / dp;
  return {range.begin + rank * size, range.begin + (rank + 1) * size};
}

const FlatPart& FlatUnit::part_of(const FlatParameter& parameter) const {
  for (const FlatPart& part : parts) {
    if (parameter.offset < part.range.end) return part;
  }
  throw Error(ExitCode::internal, parameter.spec.name + " is in no part of " + name);
}

int64_t FlatLayout::part_count() const {
  int64_t count = 0;
  for (const FlatUnit& unit : units) count += static_cast<int64_t>(unit.parts.size());
  return count;
}

std::optional<size_t> FlatLayout::find(Role role, int64_t layer) const {
  for (size_t u = 0; u < units.size(); ++u) {
    if (units[u].role == role && units[u].layer == layer) return u;
  }
  return std::nullopt;
}

FlatLayout flat_layout(const ModelShape& model, const Holdings& holdings, int64_t tp, int64_t dp) {
  FlatLayout layout;
  layout.dp = dp;
  const auto all = parameter_list(model, tp);
  auto add_unit = [&](const std::string& name, Role role, int64_t layer) {
    std::vector<ParameterSpec> cut, replicated;
    for (const ParameterSpec& spec : all) {
      if (spec.role != role || spec.layer != layer) continue;
      (spec.cut.along == Cut::Along::none && tp > 1 ? replicated : cut).push_back(spec);
    }
    if (cut.empty() && replicated.empty()) return;
    FlatUnit unit{name, role, layer, {}, {}};
    add_part(layout, unit, Group::none, std::move(cut), tp);
    add_part(layout, unit, Group::tensor, std::move(replicated), tp);
    layout.units.push_back(std::move(unit));
  };
  const bool tied_head = holdings.head && model.tied_embedding;
  if (holdings.embedding || tied_head) add_unit("wte", Role::tokens, -1);
  if (holdings.embedding) add_unit("wpe", Role::positions, -1);
  for (const int64_t layer : holdings.layers) {
    add_unit(fmt::format("h.{}", layer), Role::layer, layer);
  }
  if (holdings.head) add_unit("head", Role::head, -1);
  return layout;
}

std::vector<OwnedStretch> owned_stretches(const FlatUnit& unit, FlatRange range, int64_t dp,
                                          int64_t dp_rank) {
  std::vector<OwnedStretch> stretches;
  for (const FlatPart& part : unit.parts) {
    const FlatRange owned = part.owned(dp, dp_rank);
    const int64_t begin = std::max(range.begin, owned.begin);
    const int64_t end = std::min(range.end, owned.end);
    if (begin < end) {
      stretches.push_back({begin, end - begin, part.shard_begin(dp) + begin - owned.begin});
    }
  }
  return stretches;
}

int64_t pieces_per_part(int64_t dp) { return std::lcm(kStatPieces, dp); }

int64_t stat_piece_count(const FlatLayout& layout) {
  return pieces_per_part(layout.dp) * layout.part_count();
}

std::vector<FlatSegment> decay_segments(const FlatUnit& unit, FlatRange range) {
  std::vector<FlatSegment> segments;
  for (size_t i = 0; i < unit.parameters.size(); ++i) {
    const FlatParameter& p = unit.parameters[i];
    const int64_t begin = std::max(range.begin, p.offset);
    const int64_t end = std::min(range.end, p.offset + p.count);
    if (begin >= end) continue;
    // The padding between neighbours is zero and stays zero, so it may be part of a segment.
    if (!segments.empty() && segments.back().decay == p.spec.decay) {
      segments.back().end = end;
    } else {
      segments.push_back({begin, end, p.spec.decay});
    }
  }
  return segments;
}

}  // namespace stretto
