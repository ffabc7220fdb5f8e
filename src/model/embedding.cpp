#include "model/embedding.h"

namespace stretto {

Embedding::Embedding(Backend& backend, TensorParallel& tp, const RankShape& shape, Weights& weights,
                     Gradients* gradients)
    : backend_(backend),
      tp_(tp),
      weights_(weights),
      gradients_(gradients),
      vocab_begin_(padded_vocab(shape.model, shape.tp) / shape.tp * tp.rank()),
      token_unit_(weights.unit_index(Role::tokens)),
      wte_(weights.parameter(token_unit_, "wte")) {
  if (gradients != nullptr) dwte_ = gradients->parameter(token_unit_, "wte");
  if (shape.model.position_kind != Positions::learned) return;
  position_unit_ = weights.unit_index(Role::positions);
  wpe_ = weights.parameter(position_unit_, "wpe");
  if (gradients != nullptr) dwpe_ = gradients->parameter(position_unit_, "wpe");
}

void Embedding::forward(Tensor stream, ConstTensor tokens, int64_t batch, int64_t first_position) {
  weights_.get(token_unit_);
  if (positions()) weights_.get(position_unit_);
  const Tensor partial = tp_.partial(stream, batch);
  backend_.embedding_forward(partial, tokens, wte_, tp_.once(wpe_), vocab_begin_, first_position);
  tp_.reduce(stream, partial);
}

void Embedding::backward(ConstTensor dstream, ConstTensor tokens, int64_t batch) {
  gradients_->open(token_unit_);
  if (positions()) gradients_->open(position_unit_);
  backend_.embedding_backward(dwte_, tp_.once(dwpe_), tp_.gather_gradient(dstream, batch), tokens,
                              vocab_begin_);
  if (positions()) gradients_->close(position_unit_);
  gradients_->close(token_unit_);
}

}  // namespace stretto
