#include "model/gpt.h"

#include <algorithm>

namespace stretto {

Gpt::Gpt(Backend& backend, const RankShape& shape, RankComms comms)
    : backend_(backend),
      shape_(shape),
      layout_(flat_layout(shape)),
      comms_(comms),
      memory_(backend, shape_),
      weights_(backend, shape_, layout_, memory_, *comms.dp),
      tp_(*comms.tp, shape_, memory_),
      layer_(backend, tp_, shape_, memory_) {
  if (shape.train) {
    gradients_ = std::make_unique<Gradients>(backend, shape_, layout_, memory_, *comms.dp,
                                             *comms.tp, comms.replica);
  }
  if (shape.offloads()) offload_ = std::make_unique<ActivationOffload>(backend, shape_, memory_);
  for (const auto& chunk : shape.chunks) {
    units_.emplace_back();
    for (const int64_t layer : chunk)
      units_.back().push_back(weights_.unit_index(Role::layer, layer));
  }
  vocab_begin_ = padded_vocab(shape.model, shape.tp) / shape.tp * comms.tp->rank();
  auto find = [&](size_t& unit, ConstTensor& w, Tensor& dw, Role role, const char* name) {
    unit = weights_.unit_index(role);
    w = weights_.parameter(unit, name);
    if (gradients_) dw = gradients_->parameter(unit, name);
  };
  const bool tied = shape.model.tied_embedding;
  if (shape.first_stage) {
    find(head_.token_unit, head_.wte, dhead_.wte, Role::tokens, "wte");
    if (shape.model.position_kind == Positions::learned) {
      find(head_.position_unit, head_.wpe, dhead_.wpe, Role::positions, "wpe");
    }
  }
  if (shape.last_stage) {
    find(head_.norm_unit, head_.norm_weight, dhead_.norm_weight, Role::head, "ln_f.weight");
    find(head_.norm_unit, head_.norm_bias, dhead_.norm_bias, Role::head, "ln_f.bias");
    find(head_.matrix_unit, head_.matrix, dhead_.matrix, tied ? Role::tokens : Role::head,
         tied ? "wte" : "head");
    loss_scale_ = memory_.at("loss.scale");
    logits_ = memory_.at("loss.logits");
    lse_ = memory_.at("loss.lse");
    lse_parts_ = memory_.at("loss.lse_parts");
    target_ = memory_.at("loss.target");
    loss_sums_ = memory_.at("loss.sums");
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
  if (!shape_.last_stage) return;
  backend_.fill_zero(loss_sums_);
  backend_.copy_from_host(loss_scale_, &loss_scale);
}

void Gpt::forward(size_t chunk, const MicroBatch& mb, bool train) {
  const ChunkActivations& a = activations(chunk, mb);
  const auto& units = units_[chunk];
  backend_.eight_bit_products(shape_.precision == Precision::amp_fp8);
  if (offload_ && begins_model(chunk)) offload_->claim({chunk, mb.slot, 0});
  if (begins_model(chunk)) embed(a, mb.batch);
  for (size_t l = 0; l < units.size(); ++l) {
    const LayerWeights& w = weights_.layer(units[l]);
    if (l + 1 < units.size()) weights_.prefetch(units[l + 1]);
    if (offload_ && l > 0) offload_->claim({chunk, mb.slot, l});
    // Its input is complete: the layer below has added its branch.
    const bool whole = l == 0 || layer_.adds_inside();
    if (offload_ && l > 0 && whole)
      backend_.copy(a.layers[l][Saved::stream], layer_.branch(mb.batch));
    layer_.forward(w, a.layers[l], whole ? Tensor() : a.layers[l - 1][Saved::stream2],
                   above(a, l, mb), mb.batch);
    if (offload_ && train) offload_->store({chunk, mb.slot, l});
  }
  if (ends_model(chunk)) {
    head_forward(a, mb, train);
  } else if (!layer_.adds_inside()) {
    backend_.add(a.output, a.layers.back()[Saved::stream2], layer_.branch(mb.batch));
  }
}

// Where layer l puts its output. With offload a layer may only touch its own activations, so the
// next layer's input waits in branch().
Tensor Gpt::above(const ChunkActivations& a, size_t l, const MicroBatch& mb) const {
  if (l + 1 < a.layers.size())
    return offload_ ? layer_.branch(mb.batch) : a.layers[l + 1][Saved::stream];
  return a.output.none() ? a.head.stream : a.output;
}

void Gpt::embed(const ChunkActivations& a, int64_t batch) {
  weights_.get(head_.token_unit);
  if (!head_.wpe.none()) weights_.get(head_.position_unit);
  const Tensor stream = a.layers[0][Saved::stream], partial = tp_.partial(stream, batch);
  backend_.embedding_forward(partial, a.tokens, head_.wte, tp_.once(head_.wpe), vocab_begin_);
  tp_.reduce(stream, partial);
}

void Gpt::embed_backward(const ChunkActivations& a, Tensor dstream, int64_t batch) {
  gradients_->open(head_.token_unit);
  if (!head_.wpe.none()) gradients_->open(head_.position_unit);
  backend_.embedding_backward(dhead_.wte, tp_.once(dhead_.wpe), tp_.gather_gradient(dstream, batch),
                              a.tokens, vocab_begin_);
  if (!head_.wpe.none()) gradients_->close(head_.position_unit);
  gradients_->close(head_.token_unit);
}

void Gpt::head_forward(const ChunkActivations& a, const MicroBatch& mb, bool train) {
  const HeadActivations& h = a.head;
  backend_.eight_bit_products(false);  // logits need full precision
  weights_.get(head_.norm_unit);
  if (layer_.adds_inside()) {
    backend_.layernorm_forward(h.norm, h.mean, h.rstd, h.stream, head_.norm_weight,
                               head_.norm_bias);
  } else {
    backend_.residual_layernorm_forward(h.stream, h.norm, h.mean, h.rstd,
                                        a.layers.back()[Saved::stream2], layer_.branch(mb.batch),
                                        head_.norm_weight, head_.norm_bias);
  }
  weights_.get(head_.matrix_unit);
  if (train) gradients_->open(head_.matrix_unit);
  // The gradient of h.norm overwrites h.norm: each chunk of rows is read before it is overwritten.
  const ConstTensor norm = tp_.gather(h.norm, mb.batch);
  const Tensor dnorm = tp_.partial(h.norm, mb.batch);
  const int64_t n = norm.rows(), step = logits_.rows();
  for (int64_t begin = 0; begin < n; begin += step) {
    loss_rows(a, mb, begin, std::min(n, begin + step), norm, dnorm, train);
  }
  if (!train) return;
  if (n == 0 && gradients_->matrix_mode(head_.matrix_unit) == Grad::overwrite) {
    backend_.fill_zero(dhead_.matrix);  // without rows nothing else writes it
  }
  tp_.reduce(h.norm, dnorm);
  // The last writer of the head's matrix closes its unit. Where first stage and head share the
  // token table that is the embedding, and where the matrix is in the final LayerNorm's unit, that
  // LayerNorm's backward pass.
  const bool shared = shape_.first_stage && head_.matrix_unit == head_.token_unit;
  if (!shared && head_.matrix_unit != head_.norm_unit) gradients_->close(head_.matrix_unit);
}

// Logits, loss and gradients of rows [begin, end).
void Gpt::loss_rows(const ChunkActivations& a, const MicroBatch& mb, int64_t begin, int64_t end,
                    ConstTensor norm, Tensor dnorm, bool train) {
  const int64_t rows = end - begin;
  const VocabRange vocab{vocab_begin_, shape_.model.vocab};
  const Tensor logits = logits_.row_range(0, rows);
  const Tensor lse = lse_.slice(0, rows), target = target_.slice(0, rows);
  const Tensor lse_parts = lse_parts_.slice(0, rows * shape_.tp).view({shape_.tp, rows});
  const ConstTensor targets = a.targets.view({a.targets.count()}).slice(begin, end);

  const Tensor loss_sum = loss_sums_.slice(mb.index, mb.index + 1);

  const ConstTensor inp = norm.row_range(begin, end);
  if (train && shape_.tp == 1) {
    return backend_.linear_loss({.dinp = dnorm.row_range(begin, end),
                                 .dweight = dhead_.matrix,
                                 .loss_sum = loss_sum,
                                 .inp = inp,
                                 .weight = head_.matrix,
                                 .targets = targets,
                                 .scale = loss_scale_,
                                 .vocab = vocab,
                                 .mode = gradients_->matrix_mode(head_.matrix_unit),
                                 .logits = logits,
                                 .lse = lse,
                                 .target = target});
  }
  backend_.linear_forward(logits, inp, head_.matrix, {});
  backend_.cross_entropy_forward(lse, target, logits, targets, vocab);
  tp_.comm().all_gather(lse_parts, lse);
  backend_.combine_lse(lse, lse_parts);
  tp_.comm().all_reduce(target);
  backend_.cross_entropy_loss(loss_sum, lse, target, targets);
  if (!train) return;
  backend_.cross_entropy_backward(logits, lse, targets, loss_scale_, vocab);
  backend_.linear_backward_weight(dhead_.matrix, {}, inp, logits,
                                  gradients_->matrix_mode(head_.matrix_unit));
  backend_.linear_backward_input(dnorm.row_range(begin, end), logits, head_.matrix);
}

void Gpt::backward(size_t chunk, const MicroBatch& mb, Tensor dstream, bool deferred) {
  const ChunkActivations& a = activations(chunk, mb);
  const auto& units = units_[chunk];
  backend_.eight_bit_products(shape_.precision == Precision::amp_fp8);
  const auto down_bias = [&](size_t l) {
    return sums_stream_biases() ? gradients_->layer(units[l])[Weight::down_bias] : Tensor();
  };
  if (ends_model(chunk)) {
    const HeadActivations& h = a.head;
    weights_.get(head_.norm_unit);
    gradients_->open(head_.norm_unit);
    backend_.layernorm_backward(dstream, dhead_.norm_weight, dhead_.norm_bias, h.norm, h.stream,
                                h.mean, h.rstd, head_.norm_weight, Grad::overwrite,
                                down_bias(units.size() - 1));
    gradients_->close(head_.norm_unit);
  }
  for (size_t l = units.size(); l-- > 0;) {
    const LayerWeights& w = weights_.layer(units[l]);
    if (l > 0) weights_.prefetch(units[l - 1]);
    bring_back(chunk, mb, l);
    layer_.recompute(w, a.layers[l], mb.batch);
    const LayerGrads& dw = gradients_->layer(units[l]);
    const Grad mode = deferred ? Grad::accumulate : gradients_->matrix_mode(units[l]);
    const StreamBiases biases{bias_is_summed(chunk, l), l > 0 ? down_bias(l - 1) : Tensor()};
    layer_.backward(w, dw, a.layers[l], a.gradients[l], dstream, mode, deferred, mb.batch, biases);
    if (!deferred) gradients_->close(units[l]);
  }
  if (begins_model(chunk)) embed_backward(a, dstream, mb.batch);
}

// A layer's backward pass also sums a bias gradient of the layer below, and opens that layer's
// buffer for it. It cannot where layers take turns in the same buffers.
bool Gpt::sums_stream_biases() const {
  return backend_.sums_stream_columns() && !shape_.gathers_sequence() &&
         !shape_.reduces_each_micro_batch();
}

bool Gpt::bias_is_summed(size_t chunk, size_t l) const {
  return sums_stream_biases() && (l + 1 < units_[chunk].size() || ends_model(chunk));
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
  const ChunkActivations& a = activations(chunk, mb);
  const auto& units = units_[chunk];
  for (size_t l = units.size(); l-- > 0;) {
    bring_back(chunk, mb, l);
    const LayerWeights& w = weights_.layer(units[l]);
    layer_.recompute(w, a.layers[l], mb.batch);
    layer_.weight_gradients(w, gradients_->layer(units[l]), a.layers[l], a.gradients[l],
                            gradients_->matrix_mode(units[l]), mb.batch, bias_is_summed(chunk, l));
    gradients_->close(units[l]);
  }
}

}  // namespace stretto
