// Which tokens are trained on in which order. The order is a pure function of (seed, epoch, index),
// so the only state of the loader is one integer, the samples consumed so far. Every rank, world
// size and resumed run computes the same order from it.
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

// Cuts a range into samples of T inputs and T targets. Targets are the inputs shifted by one, so
// neighbouring samples share a token. Each sample appears exactly once per epoch. Thread-safe; the
// source must outlive it.
class Sampler {
 public:
  Sampler(const TokenSource& source, const SamplerOptions& options);

  int64_t seq_len() const { return options_.seq_len; }
  int64_t samples_per_epoch() const { return samples_; }
  int64_t epoch_of(int64_t sample) const { return sample / samples_; }
  // Where the sample with this number begins; numbers continue from epoch to epoch.
  int64_t position_of(int64_t sample) const;

  // Reads samples [first, first + count) into row-major (count, T) arrays. Throws bad_data with
  // file, offset, id and vocabulary if an id is outside the vocabulary.
  void read_batch(int64_t first, int64_t count, std::span<int32_t> tokens,
                  std::span<int32_t> targets) const;

 private:
  const TokenSource& source_;
  SamplerOptions options_;
  int64_t samples_ = 0;
};

// Divides the source into a training part and a held-out tail of about `fraction`, with at least
// one sample each if fraction > 0. The two share no token.
std::pair<TokenRange, TokenRange> split_tail(const TokenSource& source, int64_t seq_len,
                                             double fraction);

}  // namespace stretto
