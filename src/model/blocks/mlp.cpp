#include "model/blocks/mlp.h"

namespace stretto {

void MlpBlock::norm(const LayerPass& p, Stream in) {
  c_.residual.norm(in, p.a[Saved::stream2],
                   {p.a[Saved::norm2], p.a[Saved::mean2], p.a[Saved::rstd2], p.w[Weight::norm2],
                    p.w[Weight::norm2_bias]});
}

void MlpBlock::up(const LayerPass& p) {
  c_.backend.linear_forward(p.a[Saved::act], c_.tp.gather(p.a[Saved::norm2], p.batch),
                            p.w[Weight::up], p.w[Weight::up_bias],
                            {.gelu = gelu_of(c_.shape.model.mlp), .pre = p.a[Saved::pre]});
}

void MlpBlock::activation(const LayerPass& p) {
  if (c_.shape.gelu_in_place()) return;
  c_.backend.gelu_forward(p.a[Saved::act], p.a[Saved::pre], gelu_of(c_.shape.model.mlp));
}

Stream MlpBlock::forward(const LayerPass& p, Stream in, Tensor into) {
  norm(p, in);
  up(p);
  return c_.residual.add_product(p.a[Saved::stream2], into, p.a[Saved::act], p.w[Weight::down],
                                 p.w[Weight::down_bias], p.batch);
}

void MlpBlock::backward(const LayerGradientPass& p) {
  const LayerActivations& a = p.a;
  const LayerGrads& dw = p.dw;
  const Tensor dnorm = fit(c_.shape, c_.dnorm, p.batch), partial = c_.tp.partial(dnorm, p.batch);
  // The gradient of the branch's output is that of the stream.
  const ConstTensor dout = c_.tp.gather_gradient(p.dstream, p.batch);
  const bool in_place = c_.shape.gelu_in_place();
  const Tensor act = in_place ? a[Saved::pre] : a[Saved::act], dpre = p.g[Inner::dpre];
  const LinearInputGradOptions through_gelu{.gelu = gelu_of(c_.shape.model.mlp),
                                            .pre = a[Saved::pre],
                                            .dbias = dw[Weight::up_bias],
                                            .act = in_place ? a[Saved::pre] : Tensor()};
  if (p.deferred) {
    c_.backend.linear_backward_input(dpre, dout, p.w[Weight::down], through_gelu);
    c_.backend.copy(p.g[Inner::dmlp], p.dstream);
    c_.backend.linear_backward_input(partial, dpre, p.w[Weight::up]);
  } else {
    const Tensor bias = p.biases_summed ? Tensor() : c_.tp.once(dw[Weight::down_bias]);
    c_.backend.linear_backward(dpre, dw[Weight::down], bias, dout, act, p.w[Weight::down],
                               through_gelu, p.mode);
    c_.backend.linear_backward(partial, dw[Weight::up], {}, dpre,
                               c_.tp.gather(a[Saved::norm2], p.batch), p.w[Weight::up], {}, p.mode);
  }
  c_.tp.reduce(dnorm, partial);
  c_.backend.layernorm_backward(p.dstream, dw[Weight::norm2], dw[Weight::norm2_bias], dnorm,
                                a[Saved::stream2], a[Saved::mean2], a[Saved::rstd2],
                                p.w[Weight::norm2], Grad::accumulate,
                                p.biases_summed ? dw[Weight::proj_bias] : Tensor());
}

void MlpBlock::weight_gradients(const LayerGradientPass& p) {
  c_.backend.linear_backward_weight(
      p.dw[Weight::down], p.biases_summed ? Tensor() : c_.tp.once(p.dw[Weight::down_bias]),
      p.a[Saved::act], c_.tp.gather_gradient(p.g[Inner::dmlp], p.batch), p.mode);
  c_.backend.linear_backward_weight(p.dw[Weight::up], {}, c_.tp.gather(p.a[Saved::norm2], p.batch),
                                    p.g[Inner::dpre], p.mode);
}

}  // namespace stretto
