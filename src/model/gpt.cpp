#include "model/gpt.h"

namespace stretto {

Gpt::Gpt(Backend& backend, const RankShape& shape, RankComms comms)
    : backend_(backend),
      shape_(shape),
      layout_(flat_layout(shape)),
      comms_(comms),
      memory_(backend, shape_),
      weights_(backend, shape_, layout_, memory_, *comms.dp),
      gradients_(shape.train ? std::make_unique<Gradients>(backend, shape_, layout_, memory_,
                                                           *comms.dp, *comms.tp, comms.replica)
                             : nullptr),
      tp_(*comms.tp, shape_, memory_),
      context_(backend, tp_, shape_, memory_) {
  Gradients* gradients = gradients_.get();
  if (shape.first_stage) embedding_.emplace(backend, tp_, shape_, weights_, gradients);
  if (shape.last_stage) {
    head_.emplace(backend, tp_, context_.residual, shape_, memory_, weights_, gradients);
  }
  if (shape.offloads()) offload_ = std::make_unique<ActivationOffload>(backend, shape_, memory_);
  for (const auto& chunk : shape.chunks) {
    layers_.emplace_back();
    units_.emplace_back();
    for (const int64_t layer : chunk) {
      layers_.back().emplace_back(context_, layer);
      units_.back().push_back(weights_.unit_index(Role::layer, layer));
    }
  }
}

const ChunkActivations& Gpt::activations(size_t chunk, const MicroBatch& mb) {
  const auto key = std::make_tuple(chunk, mb.slot, mb.batch);
  const auto it = activations_.find(key);
  if (it != activations_.end()) return it->second;
  return activations_[key] = chunk_activations(memory_, shape_, chunk, mb.slot, mb.batch);
}

void Gpt::set_batch(size_t chunk, const MicroBatch& mb, const int32_t* tokens,
                    const int32_t* targets) {
  const ChunkActivations& a = activations(chunk, mb);
  backend_.copy_from_host(a.tokens, tokens);
  if (targets != nullptr) backend_.copy_from_host(a.targets, targets);
}

Tensor Gpt::input(size_t chunk, const MicroBatch& mb) {
  if (offload_) offload_->claim({chunk, mb.slot, 0});
  return activations(chunk, mb).layers[0][Saved::stream];
}
Tensor Gpt::received(const MicroBatch& mb) {
  return fit(shape_, memory_.at("work.received"), mb.batch);
}
void Gpt::take_received(size_t chunk, const MicroBatch& mb) {
  backend_.copy(input(chunk, mb), received(mb));
}
Tensor Gpt::output(size_t chunk, const MicroBatch& mb) { return activations(chunk, mb).output; }

Tensor Gpt::dstream(int which, const MicroBatch& mb) {
  return fit(shape_, memory_.at(which == 0 ? "work.dstream.0" : "work.dstream.1"), mb.batch);
}

void Gpt::begin_step(int64_t micro_batches, float loss_scale) {
  gradients_->begin_step(micro_batches);
  if (head_) head_->begin_step(loss_scale);
}

void Gpt::forward(size_t chunk, const MicroBatch& mb, bool train) {
  const ChunkActivations& a = activations(chunk, mb);
  const auto& units = units_[chunk];
  backend_.eight_bit_products(shape_.precision == Precision::amp_fp8);
  if (offload_ && begins_model(chunk)) offload_->claim({chunk, mb.slot, 0});
  Stream stream{a.layers[0][Saved::stream]};
  if (begins_model(chunk)) embedding_->forward(stream.base, a.tokens, mb.batch);
  for (size_t l = 0; l < units.size(); ++l) {
    const LayerWeights& w = weights_.layer(units[l]);
    if (l + 1 < units.size()) weights_.prefetch(units[l + 1]);
    if (offload_ && l > 0) offload_->claim({chunk, mb.slot, l});
    stream = layers_[chunk][l].forward({w, a.layers[l], mb.batch}, stream, above(a, l, mb));
    if (offload_ && train) offload_->store({chunk, mb.slot, l});
  }
  if (ends_model(chunk)) {
    head_->forward(a.head, a.targets, stream, mb, train);
  } else {
    context_.residual.settle(stream, a.output);
  }
}

ConstTensor Gpt::decode(int32_t token, int64_t position, const std::vector<KvCache>& caches) {
  const MicroBatch mb{0, 0, 1};
  set_batch(0, mb, &token, nullptr);
  const ChunkActivations& a = activations(0, mb);
  backend_.eight_bit_products(false);
  Stream stream{a.layers[0][Saved::stream]};
  embedding_->forward(stream.base, a.tokens, 1, position);
  for (size_t l = 0; l < caches.size(); ++l) {
    const LayerPass pass{weights_.layer(units_[0][l]), a.layers[l], 1, &caches[l], position};
    stream = layers_[0][l].forward(pass, stream, above(a, l, mb));
  }
  return head_->logits(a.head, stream);
}

// Where layer l may put its output. With offload a layer may only touch its own activations, so the
// next layer's input waits in scratch memory.
Tensor Gpt::above(const ChunkActivations& a, size_t l, const MicroBatch& mb) const {
  if (l + 1 < a.layers.size()) {
    return offload_ ? context_.residual.scratch(mb.batch) : a.layers[l + 1][Saved::stream];
  }
  return a.output.none() ? a.head.stream : a.output;
}

LayerGradientPass Gpt::gradient_pass(size_t chunk, const MicroBatch& mb, size_t l,
                                     const LayerWeights& w) {
  const ChunkActivations& a = activations(chunk, mb);
  return {{w, a.layers[l], mb.batch}, gradients_->layer(units_[chunk][l]), a.gradients[l], {}};
}

void Gpt::backward(size_t chunk, const MicroBatch& mb, Tensor dstream, bool deferred) {
  const ChunkActivations& a = activations(chunk, mb);
  const auto& units = units_[chunk];
  backend_.eight_bit_products(shape_.precision == Precision::amp_fp8);
  if (ends_model(chunk)) head_->backward(a.head, dstream, down_bias(units.back()));
  for (size_t l = units.size(); l-- > 0;) {
    const LayerWeights& w = weights_.layer(units[l]);
    if (l > 0) weights_.prefetch(units[l - 1]);
    bring_back(chunk, mb, l);
    layers_[chunk][l].recompute({w, a.layers[l], mb.batch});
    LayerGradientPass pass = gradient_pass(chunk, mb, l, w);
    pass.dstream = dstream;
    pass.mode = deferred ? Grad::accumulate : gradients_->matrix_mode(units[l]);
    pass.deferred = deferred;
    pass.biases_summed = bias_is_summed(chunk, l);
    if (l > 0) pass.bias_below = down_bias(units[l - 1]);
    layers_[chunk][l].backward(pass);
    if (!deferred) gradients_->close(units[l]);
  }
  if (begins_model(chunk)) embedding_->backward(dstream, a.tokens, mb.batch);
}

// For the norm above that layer to sum, or none. Opens the layer's buffer.
Tensor Gpt::down_bias(size_t unit) {
  return context_.biases.by_norms ? gradients_->layer(unit)[Weight::down_bias] : Tensor();
}

bool Gpt::bias_is_summed(size_t chunk, size_t l) const {
  return context_.biases.by_norms && (l + 1 < units_[chunk].size() || ends_model(chunk));
}

// Waits for the activations of layer l, and starts to fetch those of the layer below, which is
// next.
void Gpt::bring_back(size_t chunk, const MicroBatch& mb, size_t l) {
  if (!offload_) return;
  offload_->require({chunk, mb.slot, l});
  if (l > 0) offload_->fetch({chunk, mb.slot, l - 1});
}

void Gpt::backward_weights(size_t chunk, const MicroBatch& mb) {
  backend_.eight_bit_products(shape_.precision == Precision::amp_fp8);
  const auto& units = units_[chunk];
  for (size_t l = units.size(); l-- > 0;) {
    bring_back(chunk, mb, l);
    LayerGradientPass pass = gradient_pass(chunk, mb, l, weights_.layer(units[l]));
    layers_[chunk][l].recompute(pass);
    pass.mode = gradients_->matrix_mode(units[l]);
    pass.biases_summed = bias_is_summed(chunk, l);
    layers_[chunk][l].weight_gradients(pass);
    gradients_->close(units[l]);
  }
}

}  // namespace stretto
