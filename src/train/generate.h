// Text from a checkpoint: one token at a time through a key-value cache.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "account/parameters.h"
#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"

namespace stretto {

// A model that reads a sequence token by token. Holds its weights in f32.
class Decoder {
 public:
  // `tokens`: longest sequence, at most the model's positions.
  Decoder(Backend& backend, const Checkpoint& checkpoint, const ModelShape& model, int64_t tokens);

  // Logits of the token that follows `token`, (vocab) floats, valid until the next call.
  const std::vector<float>& next(int32_t token);
  int64_t position() const { return position_; }  // tokens read so far
  int64_t capacity() const { return tokens_; }
  void restart() { position_ = 0; }

 private:
  struct Layer {
    PerWeight<ConstTensor> w;
    Tensor k_cache, v_cache;  // (1, tokens, H, D)
  };
  Tensor take(Shape shape, DType type = DType::f32);
  Tensor weight(const Checkpoint& checkpoint, const ParameterSpec& spec);
  ConstTensor& end(const std::string& name);
  void run_layer(const Layer& layer, bool first);

  Backend& backend_;
  ModelShape model_;
  int64_t tokens_;
  int64_t position_ = 0;
  std::vector<Buffer> buffers_;
  ConstTensor wte_, wpe_, norm_weight_, norm_bias_, head_;
  std::vector<Layer> layers_;
  Tensor token_, stream_, stream2_, norm_, branch_, qkv_, att_, act_, mean_, rstd_, logits_;
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
