// Which tokens train in which order. The order is a pure function of (seed, epoch, index), so the
// loader's whole state is one integer, the samples consumed so far; every rank, world size and
// resumed run computes the same order from it.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "data/token_source.h"

namespace stretto {

struct TokenRange {  // [begin, end) in tokens
  int64_t begin = 0;
  int64_t end = 0;
};

struct SamplerOptions {
  int64_t seq_len = 0;  // T
  int64_t vocab = 0;    // ids must be below
  uint64_t seed = 0;
  TokenRange range;     // end 0: the whole source
  bool shuffle = true;  // off for evaluation: file order
};

// Cuts a range into samples of T inputs and T targets (the inputs one later, so neighbours share
// one token). Each sample appears exactly once per epoch. Thread-safe; the source must outlive it.
class Sampler {
 public:
  Sampler(const TokenSource& source, const SamplerOptions& options);

  int64_t seq_len() const { return options_.seq_len; }
  int64_t samples_per_epoch() const { return samples_; }
  int64_t epoch_of(int64_t sample) const { return sample / samples_; }
  // First token of the sample-th sample ever drawn; samples count on through the epochs.
  int64_t position_of(int64_t sample) const;

  // Samples [first, first + count) into row-major (count, T) arrays. Throws bad_data with file,
  // offset, id and vocabulary when an id is outside the vocabulary.
  void read_batch(int64_t first, int64_t count, std::span<int32_t> tokens,
                  std::span<int32_t> targets) const;

 private:
  const TokenSource& source_;
  SamplerOptions options_;
  int64_t samples_ = 0;
};

// The source as a training part and a held-out tail of about `fraction`, at least one sample each
// when fraction > 0. The parts share no token.
std::pair<TokenRange, TokenRange> split_tail(const TokenSource& source, int64_t seq_len,
                                             double fraction);

}  // namespace stretto
