#include "account/flat_layout.h"

#include <algorithm>
#include <numeric>

#include "base/ceil_div.h"
#include "base/error.h"

namespace stretto {
namespace {

// Elements. With it every owned range has cache lines of its own, even with two-byte types.
constexpr int64_t kGrain = 64;

int64_t padded(int64_t count, int64_t dp) {
  const int64_t multiple = kGrain * pieces_per_half(dp);
  return round_up(count, multiple);
}

// Appends one half (cut or replicated) of a unit; decayed parameters first.
int64_t place(FlatUnit& unit, std::vector<ParameterSpec> specs, int64_t offset, int64_t tp,
              int64_t dp) {
  std::stable_partition(specs.begin(), specs.end(), [](const auto& s) { return s.decay; });
  const int64_t begin = offset;
  for (ParameterSpec& spec : specs) {
    const int64_t count = shard_count(spec, tp);
    unit.parameters.push_back({std::move(spec), offset, count});
    offset += round_up(count, kGrain);
  }
  return begin + padded(offset - begin, dp);
}

FlatRange part(int64_t begin, int64_t end, int64_t parts, int64_t index) {
  const int64_t size = (end - begin) / parts;
  return {begin + index * size, begin + (index + 1) * size};
}

}  // namespace

const FlatUnit& FlatLayout::unit(const std::string& name) const {
  for (const FlatUnit& u : units) {
    if (u.name == name) return u;
  }
  throw Error(ExitCode::internal, "no unit named " + name);
}

const FlatParameter& FlatLayout::parameter(const std::string& name) const {
  for (const FlatUnit& u : units) {
    for (const FlatParameter& p : u.parameters) {
      if (p.spec.name == name) return p;
    }
  }
  throw Error(ExitCode::internal, "no parameter named " + name);
}

FlatLayout flat_layout(const ModelShape& model, const Holdings& holdings, int64_t tp, int64_t dp) {
  FlatLayout layout;
  layout.dp = dp;
  const auto all = parameter_list(model, tp);
  auto add_unit = [&](const std::string& name, int64_t layer, auto&& belongs) {
    std::vector<ParameterSpec> cut, replicated;
    for (const ParameterSpec& spec : all) {
      if (belongs(spec)) (spec.split == Split::none && tp > 1 ? replicated : cut).push_back(spec);
    }
    if (cut.empty() && replicated.empty()) return;
    FlatUnit unit;
    unit.name = name;
    unit.layer = layer;
    unit.begin = layout.total;
    unit.replicated = place(unit, std::move(cut), unit.begin, tp, dp);
    unit.end = place(unit, std::move(replicated), unit.replicated, tp, dp);
    layout.total = unit.end;
    layout.units.push_back(std::move(unit));
  };
  const bool tied_head = holdings.head && model.tied_embedding;
  if (holdings.embedding || tied_head) {
    add_unit("wte", -1, [](const auto& s) { return s.name == "wte"; });
  }
  if (holdings.embedding) add_unit("wpe", -1, [](const auto& s) { return s.name == "wpe"; });
  for (const int64_t layer : holdings.layers) {
    add_unit(fmt::format("h.{}", layer), layer,
             [layer](const auto& s) { return s.layer == layer; });
  }
  if (holdings.head) {
    add_unit("head", -1, [](const auto& s) { return s.unit == ParameterSpec::Unit::head; });
  }
  return layout;
}

FlatRange owned_cut(const FlatUnit& unit, int64_t dp, int64_t dp_rank) {
  return part(unit.begin, unit.replicated, dp, dp_rank);
}

FlatRange owned_replicated(const FlatUnit& unit, int64_t dp, int64_t dp_rank) {
  return part(unit.replicated, unit.end, dp, dp_rank);
}

std::vector<OwnedStretch> owned_stretches(const FlatUnit& unit, FlatRange range, int64_t dp,
                                          int64_t dp_rank) {
  std::vector<OwnedStretch> stretches;
  const FlatRange halves[2] = {owned_cut(unit, dp, dp_rank), owned_replicated(unit, dp, dp_rank)};
  const int64_t shard_begin[2] = {unit.begin / dp, unit.replicated / dp};
  for (int half = 0; half < 2; ++half) {
    const int64_t begin = std::max(range.begin, halves[half].begin);
    const int64_t end = std::min(range.end, halves[half].end);
    if (begin < end) {
      stretches.push_back({begin, end - begin, shard_begin[half] + begin - halves[half].begin});
    }
  }
  return stretches;
}

int64_t pieces_per_half(int64_t dp) { return std::lcm(kStatPieces, dp); }

int64_t stat_piece_count(const FlatLayout& layout) {
  return 2 * pieces_per_half(layout.dp) * static_cast<int64_t>(layout.units.size());
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
