#include "backend/backend.h"

namespace stretto {

void Backend::linear_loss(const LinearLoss& l) {
  if (l.logits.count() > 0 && do_linear_loss(l)) return;
  linear_forward(l.logits, l.inp, l.weight, {});
  cross_entropy_in_place(l.lse, l.target, l.loss_sum, l.logits, l.targets, l.scale, l.vocab);
  linear_backward_weight(l.dweight, {}, l.inp, l.logits, l.mode);
  linear_backward_input(l.dinp, l.logits, l.weight);
}

}  // namespace stretto
