// Text from a checkpoint: one token at a time through a key-value cache.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "model/gpt.h"

namespace stretto {

// A model that reads a sequence token by token, in the run's precision.
class Decoder {
 public:
  // `config`: see eval_config. `tokens`: longest sequence, at most the model's positions.
  Decoder(Backend& backend, const Checkpoint& checkpoint, const Config& config, int64_t tokens);

  // Logits of the token that follows `token`, (vocab) floats, valid until the next call.
  const std::vector<float>& next(int32_t token);
  int64_t position() const { return position_; }  // tokens read so far
  int64_t capacity() const { return tokens_; }
  void restart() { position_ = 0; }

 private:
  Backend& backend_;
  int64_t vocab_;
  int64_t tokens_;
  int64_t position_ = 0;
  std::unique_ptr<Comm> self_, comm_;
  Gpt gpt_;
  Buffer cache_memory_;
  std::vector<KvCache> caches_;  // by layer
  std::vector<float> out_;
};

// How many tokens a run's model can read at once. A learned position beyond the sequences of
// training still has its initial random embedding.
int64_t context_limit(const Config& config);

// A Decoder that never runs out: when its capacity is used up, it forgets the older half of what it
// read, and reads the newer half again from position 0.
class RollingDecoder {
 public:
  explicit RollingDecoder(Decoder& decoder) : decoder_(decoder) {}

  const std::vector<float>& next(int32_t token);  // as Decoder::next()
  bool forgot() const { return forgot_; }

 private:
  Decoder& decoder_;
  std::vector<int32_t> context_;  // what decoder_ has read
  bool forgot_ = false;
};

struct SamplingOptions {
  double temperature = 1;  // 0: always the likeliest
  int64_t top_k = 0;       // 0: all
  double top_p = 1;        // the smallest set of likely tokens that has this probability
  uint64_t seed = 0;
};

// The token that draw number `index` picks; a pure function of its arguments. Ties go to the lower
// id.
int32_t sample_token(const std::vector<float>& logits, const SamplingOptions& options,
                     uint64_t index);

}  // namespace stretto
