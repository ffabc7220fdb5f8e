#include "train/batch_reader.h"

namespace stretto {

BatchReader::BatchReader(const Config& config, int64_t dp, int64_t dp_rank)
    : seq_len_(config.seq_len), micro_batch_(config.micro_batch), dp_(dp), dp_rank_(dp_rank) {
  const auto largest = static_cast<size_t>(micro_batch_ * seq_len_);
  tokens_.resize(largest);
  targets_.resize(largest);
}

const std::vector<Share>& BatchReader::deal(const Sampler& sampler, int64_t first_sample,
                                            int64_t samples) {
  sampler_ = &sampler;
  first_sample_ = first_sample;
  if (samples != samples_) shares_ = batch_shares(samples, micro_batch_, dp_, dp_rank_);
  samples_ = samples;
  return shares_;
}

void BatchReader::read(int64_t round) {
  const Share& share = shares_[static_cast<size_t>(round)];
  read_samples({sampler_, first_sample_ + share.first, share.count});
}

void BatchReader::read_ahead(const Sampler& sampler, int64_t first_sample, int64_t samples) {
  if (samples != samples_ || shares_.empty() || shares_[0].count == 0) return;
  read_samples({&sampler, first_sample + shares_[0].first, shares_[0].count});
}

// Does nothing if these samples were the last ones read.
void BatchReader::read_samples(const Content& wanted) {
  if (content_ == wanted) return;
  content_ = {};  // reading may throw
  const auto count = static_cast<size_t>(wanted.count * seq_len_);
  wanted.sampler->read_batch(wanted.first, wanted.count, std::span(tokens_).first(count),
                             std::span(targets_).first(count));
  content_ = wanted;
}

}  // namespace stretto
