#include "train/data_mark.h"

#include <algorithm>
#include <vector>

#include "checkpoint/digest.h"
#include "data/token_check.h"

namespace stretto {

DataMark mark_of(const TokenSource& source) {
  constexpr int64_t kPlaces = 64, kIds = 64;
  const int64_t tokens = source.tokens(), ids = std::min(kIds, tokens);
  std::vector<int32_t> sample(static_cast<size_t>(kPlaces * ids));
  for (int64_t i = 0; i < kPlaces; ++i) {  // from the first to the last
    source.read(spread_place(i, kPlaces, tokens - ids),
                std::span(sample).subspan(static_cast<size_t>(i * ids), static_cast<size_t>(ids)));
  }
  return {tokens, digest_of(sample.data(), sample.size() * sizeof(int32_t)).hex(), source.format(),
          0};
}

}  // namespace stretto
