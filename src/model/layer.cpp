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
  backend_.linear_forward(a.qkv, tp_.gather(a.norm1, batch), w.qkv_weight, w.qkv_bias);
  backend_.attention_forward(a.att, a.lse, a.qkv, attention_);
  row_parallel(a.stream2, a.stream, a.att, w.proj_weight, w.proj_bias, batch);
  if (adds_inside()) {
    backend_.layernorm_forward(a.norm2, a.mean2, a.rstd2, a.stream2, w.ln2_weight, w.ln2_bias);
  } else {
    backend_.residual_layernorm_forward(a.stream2, a.norm2, a.mean2, a.rstd2, a.stream,
                                        branch(batch), w.ln2_weight, w.ln2_bias);
  }
}

// From norm2 to act.
void Layer::up(const LayerWeights& w, const LayerActivations& a, int64_t batch) {
  backend_.linear_forward(a.act, tp_.gather(a.norm2, batch), w.up_weight, w.up_bias,
                          {.gelu = shape_.model.gelu, .pre = a.pre});
}

bool Layer::repeats_gelu_alone() const {
  const Checkpointing mode = shape_.checkpointing;
  return (mode == Checkpointing::gelu || mode == Checkpointing::selective) &&
         !shape_.gelu_in_place();
}

void Layer::forward(const LayerWeights& w, const LayerActivations& a, ConstTensor residual,
                    Tensor next, int64_t batch) {
  if (residual.none()) {
    backend_.layernorm_forward(a.norm1, a.mean1, a.rstd1, a.stream, w.ln1_weight, w.ln1_bias);
  } else {
    backend_.residual_layernorm_forward(a.stream, a.norm1, a.mean1, a.rstd1, residual,
                                        branch(batch), w.ln1_weight, w.ln1_bias);
  }
  attention_block(w, a, batch);
  up(w, a, batch);
  row_parallel(next, a.stream2, a.act, w.down_weight, w.down_bias, batch);
}

void Layer::recompute(const LayerWeights& w, const LayerActivations& a, int64_t batch) {
  const Checkpointing mode = shape_.checkpointing;
  if (mode == Checkpointing::none) return;
  if (mode != Checkpointing::gelu) {
    backend_.layernorm_forward(a.norm1, a.mean1, a.rstd1, a.stream, w.ln1_weight, w.ln1_bias);
  }
  if (mode == Checkpointing::selective) {
    backend_.layernorm_forward(a.norm2, a.mean2, a.rstd2, a.stream2, w.ln2_weight, w.ln2_bias);
  }
  if (mode != Checkpointing::full) {
    if (repeats_gelu_alone()) backend_.gelu_forward(a.act, a.pre, shape_.model.gelu);
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
  const Tensor act = in_place ? a.pre : a.act;
  const LinearInputGradOptions through_gelu{.gelu = shape_.model.gelu,
                                            .pre = a.pre,
                                            .dbias = dw.up_bias,
                                            .act = in_place ? a.pre : Tensor()};
  if (deferred) {
    backend_.linear_backward_input(g.dpre, dout, w.down_weight, through_gelu);
    backend_.copy(g.dmlp, dstream);
    backend_.linear_backward_input(partial, g.dpre, w.up_weight);
  } else {
    const Tensor down_bias = biases.summed ? Tensor() : tp_.once(dw.down_bias);
    backend_.linear_backward(g.dpre, dw.down_weight, down_bias, dout, act, w.down_weight,
                             through_gelu, mode);
    backend_.linear_backward(partial, dw.up_weight, {}, g.dpre, tp_.gather(a.norm2, batch),
                             w.up_weight, {}, mode);
  }
  tp_.reduce(dnorm, partial);
  backend_.layernorm_backward(dstream, dw.ln2_weight, dw.ln2_bias, dnorm, a.stream2, a.mean2,
                              a.rstd2, w.ln2_weight, Grad::accumulate,
                              biases.summed ? dw.proj_bias : Tensor());

  // The attention branch.
  dout = tp_.gather_gradient(dstream, batch);
  const Tensor datt = fit(shape_, datt_, batch);
  if (deferred) {
    backend_.linear_backward_input(datt, dout, w.proj_weight);
    backend_.copy(g.dattn, dstream);
  } else {
    const Tensor proj_bias = biases.summed ? Tensor() : tp_.once(dw.proj_bias);
    backend_.linear_backward(datt, dw.proj_weight, proj_bias, dout, a.att, w.proj_weight, {}, mode);
  }
  const bool sums_dq = qkv_bias_from_proj(dw);
  backend_.attention_backward(g.dqkv, datt.view(a.att.shape()), a.qkv, a.att, a.lse, attention_,
                              sums_dq ? dw.qkv_bias.slice(0, dw.qkv_bias.count() / 3) : Tensor());
  if (deferred) {
    backend_.linear_backward_input(partial, g.dqkv, w.qkv_weight);
  } else {
    backend_.linear_backward(partial, dw.qkv_weight, column_summed_qkv_bias(dw), g.dqkv,
                             tp_.gather(a.norm1, batch), w.qkv_weight, {}, mode);
    if (sums_dq) backend_.qkv_bias_backward(dw.qkv_bias, w.proj_weight, dw.proj_bias);
  }
  tp_.reduce(dnorm, partial);
  backend_.layernorm_backward(dstream, dw.ln1_weight, dw.ln1_bias, dnorm, a.stream, a.mean1,
                              a.rstd1, w.ln1_weight, Grad::accumulate, biases.below);
}

void Layer::weight_gradients(const LayerWeights& w, const LayerGrads& dw, const LayerActivations& a,
                             const LayerGradients& g, Grad mode, int64_t batch,
                             bool biases_summed) {
  const auto bias = [&](Tensor dbias) { return biases_summed ? Tensor() : tp_.once(dbias); };
  ConstTensor dout = tp_.gather_gradient(g.dmlp, batch);
  backend_.linear_backward_weight(dw.down_weight, bias(dw.down_bias), a.act, dout, mode);
  backend_.linear_backward_weight(dw.up_weight, {}, tp_.gather(a.norm2, batch), g.dpre, mode);
  dout = tp_.gather_gradient(g.dattn, batch);
  backend_.linear_backward_weight(dw.proj_weight, bias(dw.proj_bias), a.att, dout, mode);
  backend_.linear_backward_weight(dw.qkv_weight, column_summed_qkv_bias(dw),
                                  tp_.gather(a.norm1, batch), g.dqkv, mode);
  if (qkv_bias_from_proj(dw)) {
    backend_.qkv_bias_backward(dw.qkv_bias, w.proj_weight, dw.proj_bias);
  }
}

Tensor Layer::column_summed_qkv_bias(const LayerGrads& dw) const {
  return shape_.gathers_sequence() ? dw.qkv_bias : Tensor();
}

bool Layer::qkv_bias_from_proj(const LayerGrads& dw) const {
  return !shape_.gathers_sequence() && !dw.qkv_bias.none();
}

}  // namespace stretto
