#include "model/blocks/attention.h"

namespace stretto {

AttentionBlock::AttentionBlock(BlockContext& context, int64_t /*layer*/) : c_(context) {
  const ModelShape& model = c_.shape.model;
  options_.heads = model.heads / c_.shape.tp;
  options_.total_heads = model.heads;
  options_.first_head = options_.heads * c_.tp.rank();
  options_.alibi = model.position_kind == Positions::alibi;
}

void AttentionBlock::norm(const LayerPass& p, Stream in) {
  c_.residual.norm(in, p.a[Saved::stream],
                   {p.a[Saved::norm1], p.a[Saved::mean1], p.a[Saved::rstd1], p.w[Weight::norm1],
                    p.w[Weight::norm1_bias]});
}

Stream AttentionBlock::from_norm(const LayerPass& p) {
  const LayerActivations& a = p.a;
  c_.backend.linear_forward(a[Saved::qkv], c_.tp.gather(a[Saved::norm1], p.batch), p.w[Weight::qkv],
                            p.w[Weight::qkv_bias]);
  if (p.cache != nullptr) {
    c_.backend.attention_decode(a[Saved::att], p.cache->keys, p.cache->values, a[Saved::qkv],
                                p.position, options_);
  } else {
    c_.backend.attention_forward(a[Saved::att], a[Saved::lse], a[Saved::qkv], options_);
  }
  return c_.residual.add_product(a[Saved::stream], a[Saved::stream2], a[Saved::att],
                                 p.w[Weight::proj], p.w[Weight::proj_bias], p.batch);
}

Stream AttentionBlock::forward(const LayerPass& p, Stream in) {
  norm(p, in);
  return from_norm(p);
}

void AttentionBlock::backward(const LayerGradientPass& p) {
  const LayerActivations& a = p.a;
  const LayerGrads& dw = p.dw;
  const Tensor dnorm = fit(c_.shape, c_.dnorm, p.batch), partial = c_.tp.partial(dnorm, p.batch);
  const ConstTensor dout = c_.tp.gather_gradient(p.dstream, p.batch);
  const Tensor datt = fit(c_.shape, c_.datt, p.batch), dqkv = p.g[Inner::dqkv];
  if (p.deferred) {
    c_.backend.linear_backward_input(datt, dout, p.w[Weight::proj]);
    c_.backend.copy(p.g[Inner::dattn], p.dstream);
  } else {
    const Tensor bias = p.biases_summed ? Tensor() : c_.tp.once(dw[Weight::proj_bias]);
    c_.backend.linear_backward(datt, dw[Weight::proj], bias, dout, a[Saved::att], p.w[Weight::proj],
                               {}, p.mode);
  }
  const Tensor bias = dw[Weight::qkv_bias];
  c_.backend.attention_backward(
      dqkv, datt.view(a[Saved::att].shape()), a[Saved::qkv], a[Saved::att], a[Saved::lse], options_,
      c_.biases.qkv_from_proj ? bias.slice(0, bias.count() / 3) : Tensor());
  if (p.deferred) {
    c_.backend.linear_backward_input(partial, dqkv, p.w[Weight::qkv]);
  } else {
    c_.backend.linear_backward(partial, dw[Weight::qkv], c_.biases.qkv_from_proj ? Tensor() : bias,
                               dqkv, c_.tp.gather(a[Saved::norm1], p.batch), p.w[Weight::qkv], {},
                               p.mode);
    qkv_bias_from_proj(p);
  }
  c_.tp.reduce(dnorm, partial);
  c_.backend.layernorm_backward(p.dstream, dw[Weight::norm1], dw[Weight::norm1_bias], dnorm,
                                a[Saved::stream], a[Saved::mean1], a[Saved::rstd1],
                                p.w[Weight::norm1], Grad::accumulate, p.bias_below);
}

void AttentionBlock::weight_gradients(const LayerGradientPass& p) {
  const LayerGrads& dw = p.dw;
  c_.backend.linear_backward_weight(
      dw[Weight::proj], p.biases_summed ? Tensor() : c_.tp.once(dw[Weight::proj_bias]),
      p.a[Saved::att], c_.tp.gather_gradient(p.g[Inner::dattn], p.batch), p.mode);
  c_.backend.linear_backward_weight(
      dw[Weight::qkv], c_.biases.qkv_from_proj ? Tensor() : dw[Weight::qkv_bias],
      c_.tp.gather(p.a[Saved::norm1], p.batch), p.g[Inner::dqkv], p.mode);
  qkv_bias_from_proj(p);
}

// Once the gradient of the proj bias is complete.
void AttentionBlock::qkv_bias_from_proj(const LayerGradientPass& p) {
  if (!c_.biases.qkv_from_proj) return;
  c_.backend.qkv_bias_backward(p.dw[Weight::qkv_bias], p.w[Weight::proj], p.dw[Weight::proj_bias]);
}

}  // namespace stretto
