// One rank's part of a GPT: its chunks of layers, with the embedding on the first pipeline stage
// and the head and loss on the last. Knows nothing of schedules: someone calls forward and backward
// for (chunk, slot) in a legal order and moves streams between stages.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "model/embedding.h"
#include "model/head.h"
#include "model/layer.h"
#include "model/offload.h"

namespace stretto {

// The communicators of one rank. `dp` joins the ranks that share one copy of sharded state. `ends`
// joins first and last stage where both hold a tied token table, else it is null. `replica` joins
// the ranks that hold the same part in different copies (hybrid sharding); it is null where `dp` is
// the whole axis.
struct RankComms {
  Comm* dp = nullptr;
  Comm* tp = nullptr;
  Comm* pp = nullptr;
  Comm* ends = nullptr;
  Comm* replica = nullptr;
};

class Gpt {
 public:
  Gpt(Backend& backend, const RankShape& shape, RankComms comms);

  const RankShape& shape() const { return shape_; }
  const FlatLayout& layout() const { return layout_; }
  RankMemory& memory() { return memory_; }
  Weights& weights() { return weights_; }
  Gradients& gradients() { return *gradients_; }
  RankComms comms() const { return comms_; }
  Backend& backend() { return backend_; }

  bool begins_model(size_t chunk) const { return shape_.first_stage && chunk == 0; }
  bool ends_model(size_t chunk) const {
    return shape_.last_stage && chunk + 1 == shape_.chunks.size();
  }

  // Tokens and targets of a micro-batch, (B, T) i32 on the host. First and last stage need them.
  void set_batch(size_t chunk, const MicroBatch& mb, const int32_t* tokens, const int32_t* targets);
  // The residual stream into a chunk (rows, C): received here unless the chunk begins the model.
  Tensor input(size_t chunk, const MicroBatch& mb);
  // A buffer for the next task's input, to be received while input() is still in use;
  // take_received() copies it there. Only in training, and only where a stage receives streams.
  Tensor received(const MicroBatch& mb);
  void take_received(size_t chunk, const MicroBatch& mb);
  // The stream out of a chunk, which is sent on; none where the chunk ends the model.
  Tensor output(size_t chunk, const MicroBatch& mb);

  // Runs the chunk. The last stage also computes the loss and, with `train`, its gradient at once,
  // so that logits are needed for one chunk of rows at a time.
  void forward(size_t chunk, const MicroBatch& mb, bool train = true);
  // Logits (1, columns) of the token that follows `token`, which is at `position` of the one
  // sequence that the caches hold, one per layer. For shapes of one token on one rank.
  ConstTensor decode(int32_t token, int64_t position, const std::vector<KvCache>& caches);
  // dstream: the gradient of output() on entry (ignored on the last stage), that of input() on
  // return. `deferred`: the gradients of matrices are left to backward_weights().
  void backward(size_t chunk, const MicroBatch& mb, Tensor dstream, bool deferred = false);
  void backward_weights(size_t chunk, const MicroBatch& mb);
  Tensor dstream(int which, const MicroBatch& mb);  // one of two gradient streams

  void begin_step(int64_t micro_batches, float loss_scale);
  // Loss sums of this step's micro-batches (f64, last stage only).
  Tensor loss_sums() { return memory_.at("loss.sums"); }

 private:
  const ChunkActivations& activations(size_t chunk, const MicroBatch& mb);
  // Whether the norm above layer l, if this rank has it, sums the layer's down_bias: see
  // BiasGradients.
  bool bias_is_summed(size_t chunk, size_t l) const;
  Tensor down_bias(size_t unit);
  void bring_back(size_t chunk, const MicroBatch& mb, size_t l);
  Tensor above(const ChunkActivations& a, size_t l, const MicroBatch& mb) const;
  LayerGradientPass gradient_pass(size_t chunk, const MicroBatch& mb, size_t l,
                                  const LayerWeights& w);

  Backend& backend_;
  RankShape shape_;
  FlatLayout layout_;
  RankComms comms_;
  RankMemory memory_;
  Weights weights_;
  std::unique_ptr<Gradients> gradients_;  // none when forward only
  TensorParallel tp_;
  BlockContext context_;
  std::optional<Embedding> embedding_;          // on the first stage
  std::optional<Head> head_;                    // on the last stage
  std::vector<std::vector<Layer>> layers_;      // [chunk][layer]
  std::vector<std::vector<size_t>> units_;      // [chunk][layer] -> unit
  std::unique_ptr<ActivationOffload> offload_;  // none when activations stay on the device
  std::map<std::tuple<size_t, int64_t, int64_t>, ChunkActivations> activations_;
};

}  // namespace stretto
