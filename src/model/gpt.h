// One rank's part of a GPT: its chunks of layers, with the embedding on the first pipeline stage
// and the head and loss on the last. Knows nothing of schedules: someone calls forward and backward
// for (chunk, slot) in a legal order and moves streams between stages.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "model/gradients.h"
#include "model/layer.h"
#include "model/offload.h"
#include "model/weights.h"

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

// A micro-batch that is being computed: which activations it uses and where its loss goes.
struct MicroBatch {
  int64_t slot = 0;   // of the chunk's activations
  int64_t index = 0;  // among the step's micro-batches on this rank
  int64_t batch = 0;  // sequences; 0 is legal and does nothing
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
  // Whether the backward pass of a LayerNorm also sums bias gradients: the LayerNorm above layer l
  // sums the layer's down_bias, and the one inside it its proj_bias.
  bool sums_stream_biases() const;
  bool bias_is_summed(size_t chunk, size_t l) const;
  void bring_back(size_t chunk, const MicroBatch& mb, size_t l);
  Tensor above(const ChunkActivations& a, size_t l, const MicroBatch& mb) const;
  void embed(const ChunkActivations& a, int64_t batch);
  void embed_backward(const ChunkActivations& a, Tensor dstream, int64_t batch);
  void head_forward(const ChunkActivations& a, const MicroBatch& mb, bool train);
  void loss_rows(const ChunkActivations& a, const MicroBatch& mb, int64_t begin, int64_t end,
                 ConstTensor norm, Tensor dnorm, bool train);

  Backend& backend_;
  RankShape shape_;
  FlatLayout layout_;
  RankComms comms_;
  RankMemory memory_;
  Weights weights_;
  std::unique_ptr<Gradients> gradients_;  // none when forward only
  TensorParallel tp_;
  Layer layer_;
  std::unique_ptr<ActivationOffload> offload_;  // none when activations stay on the device
  std::map<std::tuple<size_t, int64_t, int64_t>, ChunkActivations> activations_;

  struct Head {  // units and tensors of embedding and head, looked up once
    size_t token_unit = 0, position_unit = 0, norm_unit = 0, matrix_unit = 0;
    ConstTensor wte, wpe, norm_weight, norm_bias, matrix;
  } head_;
  struct HeadGrads {
    Tensor wte, wpe, norm_weight, norm_bias, matrix;
  } dhead_;
  std::vector<std::vector<size_t>> units_;  // [chunk][layer] -> unit
  int64_t vocab_begin_ = 0;
  Tensor loss_scale_, logits_, lse_, lse_parts_, target_, loss_sums_;
};

}  // namespace stretto
