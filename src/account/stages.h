// How a pipeline cuts the layers.
#pragma once

#include <cstdint>
#include <vector>

namespace stretto {

// Layers per virtual stage. Virtual stage v is chunk v / pp of rank v % pp. Parts differ by one
// layer at most. With `ends_count`, the embedding and the head count as one layer each, so the
// first and the last stage get fewer layers.
std::vector<int64_t> even_partition(int64_t layers, int64_t virtual_stages, bool ends_count);

// Global layer indices of each chunk of `stage`, given the layers per virtual stage.
std::vector<std::vector<int64_t>> stage_chunks(const std::vector<int64_t>& partition, int64_t pp,
                                               int64_t stage);

}  // namespace stretto
