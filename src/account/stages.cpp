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
  // A part of one item would leave an end without a layer: the ends then cost nothing extra.
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

std::vector<int64_t> in_flight_gpipe(int64_t rounds) { return {rounds}; }

std::vector<int64_t> in_flight_1f1b(int64_t pp, int64_t stage, int64_t rounds) {
  return {std::min(rounds, pp - stage)};
}

// Chunks take turns, pp micro-batches at a time; a stage runs ahead by its distance to the end,
// there and back, and by one turn for each chunk but the last.
std::vector<int64_t> in_flight_interleaved(int64_t pp, int64_t stage, int64_t chunks,
                                           int64_t rounds) {
  const int64_t total = rounds * chunks, turn = pp * chunks;
  const int64_t ahead = std::min(total, 2 * (pp - stage - 1) + (chunks - 1) * pp);
  std::vector<int64_t> live(static_cast<size_t>(chunks), 0), most = live;
  for (int64_t k = 0; k < total + ahead; ++k) {
    if (k < total) {
      const auto c = static_cast<size_t>(k % turn / pp);
      most[c] = std::max(most[c], ++live[c]);
    }
    if (k >= ahead) --live[static_cast<size_t>(chunks - 1 - (k - ahead) % turn / pp)];
  }
  return most;
}

}  // namespace stretto
