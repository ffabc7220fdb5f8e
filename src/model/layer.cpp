#include "model/layer.h"

namespace stretto {

Layer::Layer(Backend& backend, TensorParallel& tp, const RankShape& shape, const RankMemory& memory)
    : backend_(backend), tp_(tp), shape_(shape), branch_(memory.at("work.branch")) {
  attention_.heads = shape.model.heads / shape.tp;
  attention_.total_heads = shape.model.heads;
  attention_.first_head = attention_.heads * tp.rank();
  attention_.alibi = shape.model.position_kind == Positions::alibi;
  if (shape.train) {
    dnorm_ = memory.at("work.dnorm");
    datt_ = memory.at("work.datt");
  }
}

Tensor Layer::branch(int64_t batch) const { return fit(shape_, branch_, batch); }

// The last product of a branch. Writes stream + branch to `sum`, or where the addition is left to
// the next LayerNorm, the branch alone to branch().
void Layer::row_parallel(Tensor sum, ConstTensor stream, ConstTensor inp, ConstTensor weight,
                         ConstTensor bias, int64_t batch) {
  if (adds_inside()) {
    LinearOptions options;
    options.addend = stream;
    return backend_.linear_forward(sum, inp, weight, bias, options);
  }
  const Tensor out = branch(batch), partial = tp_.partial(out, batch);
  backend_.linear_forward(partial, inp, weight, tp_.once(bias));
  tp_.reduce(out, partial);
}

// From norm1 to stream2 and norm2.
void Layer::attention_block(const LayerWeights& w, const LayerActivations& a, int64_t batch) {
  backend_.linear_forward(a[Saved::qkv], tp_.gather(a[Saved::norm1], batch), w[Weight::qkv],
                          w[Weight::qkv_bias]);
  backend_.attention_forward(a[Saved::att], a[Saved::lse], a[Saved::qkv], attention_);
  row_parallel(a[Saved::stream2], a[Saved::stream], a[Saved::att], w[Weight::proj],
               w[Weight::proj_bias], batch);
  if (adds_inside()) {
    backend_.layernorm_forward(a[Saved::norm2], a[Saved::mean2], a[Saved::rstd2], a[Saved::stream2],
                               w[Weight::norm2], w[Weight::norm2_bias]);
  } else {
    backend_.residual_layernorm_forward(a[Saved::stream2], a[Saved::norm2], a[Saved::mean2],
                                        a[Saved::rstd2], a[Saved::stream], branch(batch),
                                        w[Weight::norm2], w[Weight::norm2_bias]);
  }
}

// From norm2 to act.
void Layer::up(const LayerWeights& w, const LayerActivations& a, int64_t batch) {
  backend_.linear_forward(a[Saved::act], tp_.gather(a[Saved::norm2], batch), w[Weight::up],
                          w[Weight::up_bias],
                          {.gelu = gelu_of(shape_.model.mlp), .pre = a[Saved::pre]});
}

bool Layer::repeats_gelu_alone() const {
  const Checkpointing mode = shape_.checkpointing;
  return (mode == Checkpointing::gelu || mode == Checkpointing::selective) &&
         !shape_.gelu_in_place();
}

void Layer::forward(const LayerWeights& w, const LayerActivations& a, ConstTensor residual,
                    Tensor next, int64_t batch) {
  if (residual.none()) {
    backend_.layernorm_forward(a[Saved::norm1], a[Saved::mean1], a[Saved::rstd1], a[Saved::stream],
                               w[Weight::norm1], w[Weight::norm1_bias]);
  } else {
    backend_.residual_layernorm_forward(a[Saved::stream], a[Saved::norm1], a[Saved::mean1],
                                        a[Saved::rstd1], residual, branch(batch), w[Weight::norm1],
                                        w[Weight::norm1_bias]);
  }
  attention_block(w, a, batch);
  up(w, a, batch);
  row_parallel(next, a[Saved::stream2], a[Saved::act], w[Weight::down], w[Weight::down_bias],
               batch);
}

void Layer::recompute(const LayerWeights& w, const LayerActivations& a, int64_t batch) {
  const Checkpointing mode = shape_.checkpointing;
  if (mode == Checkpointing::none) return;
  if (mode != Checkpointing::gelu) {
    backend_.layernorm_forward(a[Saved::norm1], a[Saved::mean1], a[Saved::rstd1], a[Saved::stream],
                               w[Weight::norm1], w[Weight::norm1_bias]);
  }
  if (mode == Checkpointing::selective) {
    backend_.layernorm_forward(a[Saved::norm2], a[Saved::mean2], a[Saved::rstd2], a[Saved::stream2],
                               w[Weight::norm2], w[Weight::norm2_bias]);
  }
  if (mode != Checkpointing::full) {
    if (repeats_gelu_alone())
      backend_.gelu_forward(a[Saved::act], a[Saved::pre], gelu_of(shape_.model.mlp));
    return;
  }
  attention_block(w, a, batch);
  up(w, a, batch);
}

void Layer::backward(const LayerWeights& w, const LayerGrads& dw, const LayerActivations& a,
                     const LayerGradients& g, Tensor dstream, Grad mode, bool deferred,
                     int64_t batch, const StreamBiases& biases) {
  const Tensor dnorm = fit(shape_, dnorm_, batch), partial = tp_.partial(dnorm, batch);

  // The MLP branch: its output gradient is that of the stream.
  ConstTensor dout = tp_.gather_gradient(dstream, batch);
  const bool in_place = shape_.gelu_in_place();
  const Tensor act = in_place ? a[Saved::pre] : a[Saved::act];
  const LinearInputGradOptions through_gelu{.gelu = gelu_of(shape_.model.mlp),
                                            .pre = a[Saved::pre],
                                            .dbias = dw[Weight::up_bias],
                                            .act = in_place ? a[Saved::pre] : Tensor()};
  if (deferred) {
    backend_.linear_backward_input(g[Inner::dpre], dout, w[Weight::down], through_gelu);
    backend_.copy(g[Inner::dmlp], dstream);
    backend_.linear_backward_input(partial, g[Inner::dpre], w[Weight::up]);
  } else {
    const Tensor down_bias = biases.summed ? Tensor() : tp_.once(dw[Weight::down_bias]);
    backend_.linear_backward(g[Inner::dpre], dw[Weight::down], down_bias, dout, act,
                             w[Weight::down], through_gelu, mode);
    backend_.linear_backward(partial, dw[Weight::up], {}, g[Inner::dpre],
                             tp_.gather(a[Saved::norm2], batch), w[Weight::up], {}, mode);
  }
  tp_.reduce(dnorm, partial);
  backend_.layernorm_backward(dstream, dw[Weight::norm2], dw[Weight::norm2_bias], dnorm,
                              a[Saved::stream2], a[Saved::mean2], a[Saved::rstd2], w[Weight::norm2],
                              Grad::accumulate, biases.summed ? dw[Weight::proj_bias] : Tensor());

  // The attention branch.
  dout = tp_.gather_gradient(dstream, batch);
  const Tensor datt = fit(shape_, datt_, batch);
  if (deferred) {
    backend_.linear_backward_input(datt, dout, w[Weight::proj]);
    backend_.copy(g[Inner::dattn], dstream);
  } else {
    const Tensor proj_bias = biases.summed ? Tensor() : tp_.once(dw[Weight::proj_bias]);
    backend_.linear_backward(datt, dw[Weight::proj], proj_bias, dout, a[Saved::att],
                             w[Weight::proj], {}, mode);
  }
  const bool sums_dq = qkv_bias_from_proj(dw);
  backend_.attention_backward(
      g[Inner::dqkv], datt.view(a[Saved::att].shape()), a[Saved::qkv], a[Saved::att], a[Saved::lse],
      attention_,
      sums_dq ? dw[Weight::qkv_bias].slice(0, dw[Weight::qkv_bias].count() / 3) : Tensor());
  if (deferred) {
    backend_.linear_backward_input(partial, g[Inner::dqkv], w[Weight::qkv]);
  } else {
    backend_.linear_backward(partial, dw[Weight::qkv], column_summed_qkv_bias(dw), g[Inner::dqkv],
                             tp_.gather(a[Saved::norm1], batch), w[Weight::qkv], {}, mode);
    if (sums_dq)
      backend_.qkv_bias_backward(dw[Weight::qkv_bias], w[Weight::proj], dw[Weight::proj_bias]);
  }
  tp_.reduce(dnorm, partial);
  backend_.layernorm_backward(dstream, dw[Weight::norm1], dw[Weight::norm1_bias], dnorm,
                              a[Saved::stream], a[Saved::mean1], a[Saved::rstd1], w[Weight::norm1],
                              Grad::accumulate, biases.below);
}

void Layer::weight_gradients(const LayerWeights& w, const LayerGrads& dw, const LayerActivations& a,
                             const LayerGradients& g, Grad mode, int64_t batch,
                             bool biases_summed) {
  const auto bias = [&](Tensor dbias) { return biases_summed ? Tensor() : tp_.once(dbias); };
  ConstTensor dout = tp_.gather_gradient(g[Inner::dmlp], batch);
  backend_.linear_backward_weight(dw[Weight::down], bias(dw[Weight::down_bias]), a[Saved::act],
                                  dout, mode);
  backend_.linear_backward_weight(dw[Weight::up], {}, tp_.gather(a[Saved::norm2], batch),
                                  g[Inner::dpre], mode);
  dout = tp_.gather_gradient(g[Inner::dattn], batch);
  backend_.linear_backward_weight(dw[Weight::proj], bias(dw[Weight::proj_bias]), a[Saved::att],
                                  dout, mode);
  backend_.linear_backward_weight(dw[Weight::qkv], column_summed_qkv_bias(dw),
                                  tp_.gather(a[Saved::norm1], batch), g[Inner::dqkv], mode);
  if (qkv_bias_from_proj(dw)) {
    backend_.qkv_bias_backward(dw[Weight::qkv_bias], w[Weight::proj], dw[Weight::proj_bias]);
  }
}

Tensor Layer::column_summed_qkv_bias(const LayerGrads& dw) const {
  return shape_.gathers_sequence() ? dw[Weight::qkv_bias] : Tensor();
}

bool Layer::qkv_bias_from_proj(const LayerGrads& dw) const {
  return !shape_.gathers_sequence() && !dw[Weight::qkv_bias].none();
}

}  // namespace stretto
