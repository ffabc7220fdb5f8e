#include "account/stages.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace stretto {

std::vector<int64_t> even_partition(int64_t layers, int64_t virtual_stages, bool ends_count) {
  STRETTO_CHECK(virtual_stages > 0 && layers >= virtual_stages, "{} layers, {} stages", layers,
                virtual_stages);
  const int64_t first = ends_count && virtual_stages > 1 ? 1 : 0;
  const int64_t items = layers + 2 * first;
  std::vector<int64_t> parts;
  for (int64_t v = 0; v < virtual_stages; ++v) {
    parts.push_back((v + 1) * items / virtual_stages - v * items / virtual_stages);
  }
  // With a part of a single item an end would have no layer: then the ends do not count.
  if (first == 1 && (parts.front() < 2 || parts.back() < 2)) {
    return even_partition(layers, virtual_stages, false);
  }
  parts.front() -= first;
  parts.back() -= first;
  return parts;
}

std::vector<std::vector<int64_t>> stage_chunks(const std::vector<int64_t>& partition, int64_t pp,
                                               int64_t stage) {
  std::vector<std::vector<int64_t>> chunks;
  int64_t begin = 0;
  for (size_t v = 0; v < partition.size(); ++v) {
    if (static_cast<int64_t>(v) % pp == stage) {
      chunks.emplace_back(static_cast<size_t>(partition[v]));
      std::iota(chunks.back().begin(), chunks.back().end(), begin);
    }
    begin += partition[v];
  }
  return chunks;
}

}  // namespace stretto
