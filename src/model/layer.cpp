#include "model/layer.h"

namespace stretto {

Stream Layer::forward(const LayerPass& pass, Stream in, Tensor into) {
  return mlp_.forward(pass, attention_.forward(pass, in), into);
}

void Layer::recompute(const LayerPass& pass) {
  switch (mode_) {
    case Checkpointing::none:
      break;
    case Checkpointing::full:
      attention_.norm(pass, {pass.a[Saved::stream]});
      mlp_.norm(pass, attention_.from_norm(pass));
      mlp_.up(pass);
      break;
    case Checkpointing::selective:
      attention_.norm(pass, {pass.a[Saved::stream]});
      mlp_.norm(pass, {pass.a[Saved::stream2]});
      mlp_.activation(pass);
      break;
    case Checkpointing::gelu:
      mlp_.activation(pass);
      break;
  }
}

void Layer::backward(const LayerGradientPass& pass) {
  mlp_.backward(pass);
  attention_.backward(pass);
}

void Layer::weight_gradients(const LayerGradientPass& pass) {
  mlp_.weight_gradients(pass);
  attention_.weight_gradients(pass);
}

}  // namespace stretto
