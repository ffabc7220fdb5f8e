// The samples of one rank: dealt out in shares for a whole batch, read one share at a time.
#pragma once

#include <vector>

#include "data/sampler.h"
#include "train/batch_plan.h"

namespace stretto {

class BatchReader {
 public:
  // For rank `dp_rank` of `dp` data-parallel ranks. `config` has a definite seq_len.
  BatchReader(const Config& config, int64_t dp, int64_t dp_rank);

  // Deals out `samples` samples of `sampler` from `first_sample` on. Returns this rank's shares,
  // one per round; read() refers to them until the next call.
  const std::vector<Share>& deal(const Sampler& sampler, int64_t first_sample, int64_t samples);
  // Reads the tokens and targets of share `round`.
  void read(int64_t round);
  // Reads the first share of a batch that is to be dealt out next, if it will be dealt out like the
  // last one. deal() and read() then find it.
  void read_ahead(const Sampler& sampler, int64_t first_sample, int64_t samples);

  const int32_t* tokens() const { return tokens_.data(); }
  const int32_t* targets() const { return targets_.data(); }

 private:
  // What tokens_ and targets_ hold.
  struct Content {
    const Sampler* sampler = nullptr;
    int64_t first = 0, count = 0;
    bool operator==(const Content&) const = default;
  };
  void read_samples(const Content& wanted);

  int64_t seq_len_, micro_batch_, dp_, dp_rank_;
  const Sampler* sampler_ = nullptr;  // of the batch that was dealt out
  int64_t first_sample_ = 0, samples_ = 0;
  std::vector<Share> shares_;
  std::vector<int32_t> tokens_, targets_;
  Content content_;
};

}  // namespace stretto
