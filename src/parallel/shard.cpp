#include "parallel/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace stretto {
namespace {

[[noreturn]] void refuse(const std::string& partition, int64_t layers, int64_t stages) {
  throw Error(
      ExitCode::bad_config,
      fmt::format("partition '{}' of {} layers over {} stages", partition, layers, stages),
      fmt::format("use transformer, transformer+embedding, or {} numbers of at least 1 that "
                  "sum to {}",
                  stages, layers));
}

// "[3, 4,5]" -> 3, 4, 5; empty when it is no such list.
std::vector<int64_t> parse_list(const std::string& text) {
  if (text.size() < 3 || text.front() != '[' || text.back() != ']') return {};
  std::vector<int64_t> out;
  const char* at = text.data() + 1;
  const char* end = text.data() + text.size() - 1;
  while (true) {
    while (at < end && *at == ' ') ++at;
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return {};
    out.push_back(value);
    at = stop;
    while (at < end && *at == ' ') ++at;
    if (at == end) return out;
    if (*at++ != ',') return {};
  }
}

// The remainder goes to the middle: the ends carry embedding and head already.
std::vector<int64_t> even_counts(int64_t layers, int64_t stages) {
  std::vector<int64_t> counts(static_cast<size_t>(stages), layers / stages);
  const int64_t more = layers % stages;
  const int64_t first = (stages - more) / 2;
  for (int64_t s = first; s < first + more; ++s) ++counts[static_cast<size_t>(s)];
  return counts;
}

std::vector<int64_t> counts_with_embedding(int64_t layers, int64_t stages) {
  if (stages == 1) return {layers};
  std::vector<int64_t> counts = even_counts(layers + 2, stages);
  --counts.front();
  --counts.back();
  return counts;
}

}  // namespace

IndexRange even_part(int64_t n, int64_t parts, int64_t i) {
  STRETTO_CHECK(n >= 0 && parts >= 1 && 0 <= i && i < parts, "part {} of {} of {}", i, parts, n);
  const int64_t base = n / parts;
  const int64_t more = n % parts;
  const int64_t begin = base * i + std::min(i, more);
  return {begin, begin + base + (i < more ? 1 : 0)};
}

PaddedPart padded_part(int64_t n, int64_t parts, int64_t i, int64_t multiple) {
  STRETTO_CHECK(n >= 0 && parts >= 1 && multiple >= 1 && 0 <= i && i < parts, "part {} of {} of {}",
                i, parts, n);
  const int64_t unit = parts * multiple;
  const int64_t size = (n + unit - 1) / unit * multiple;
  const IndexRange padded{size * i, size * (i + 1)};
  return {padded, {std::min(padded.begin, n), std::min(padded.end, n)}};
}

std::vector<IndexRange> bucket_ranges(const std::vector<int64_t>& sizes, int64_t bucket) {
  STRETTO_CHECK(bucket >= 1, "buckets of {}", bucket);
  std::vector<IndexRange> out;
  for (const int64_t size : sizes) {
    STRETTO_CHECK(size >= 0, "tensor of {}", size);
    const int64_t at = out.empty() ? 0 : out.back().end;
    if (out.empty() || out.back().count() + size > bucket) {
      out.push_back({at, at + size});
    } else {
      out.back().end += size;
    }
  }
  return out;
}

std::vector<int64_t> micro_batch_sizes(int64_t samples, int64_t micro_batch) {
  STRETTO_CHECK(samples >= 0 && micro_batch >= 1, "{} by {}", samples, micro_batch);
  std::vector<int64_t> out;
  for (int64_t left = samples; left > 0; left -= micro_batch) {
    out.push_back(std::min(left, micro_batch));
  }
  return out;
}

std::vector<IndexRange> stage_partition(const std::string& partition, int64_t layers,
                                        int64_t stages) {
  if (stages < 1 || layers < stages) refuse(partition, layers, stages);
  std::vector<int64_t> counts;
  if (partition == "transformer") {
    counts = even_counts(layers, stages);
  } else if (partition == "transformer+embedding") {
    counts = counts_with_embedding(layers, stages);
  } else {
    counts = parse_list(partition);
  }
  if (static_cast<int64_t>(counts.size()) != stages) refuse(partition, layers, stages);
  std::vector<IndexRange> out;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    if (count < 1 || count > layers - begin) refuse(partition, layers, stages);
    out.push_back({begin, begin + count});
    begin += count;
  }
  if (begin != layers) refuse(partition, layers, stages);
  return out;
}

std::vector<std::vector<int64_t>> rank_chunks(const std::vector<IndexRange>& stages, int64_t pp,
                                              int64_t pp_rank) {
  STRETTO_CHECK(pp >= 1 && 0 <= pp_rank && pp_rank < pp, "rank {} of {}", pp_rank, pp);
  std::vector<std::vector<int64_t>> chunks;
  for (auto s = static_cast<size_t>(pp_rank); s < stages.size(); s += static_cast<size_t>(pp)) {
    chunks.emplace_back();
    for (int64_t l = stages[s].begin; l < stages[s].end; ++l) chunks.back().push_back(l);
  }
  return chunks;
}

}  // namespace stretto
