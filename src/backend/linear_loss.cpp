#include "backend/backend.h"
#include "base/error.h"

namespace stretto {

void Backend::linear_loss(const LinearLoss& l) {
  const int64_t rows = l.inp.rows();
  STRETTO_CHECK(l.lse.count() == rows && l.target.count() == rows && l.targets.count() == rows &&
                    l.scale.count() == 1 && l.logits.rows() == rows &&
                    l.logits.last() == l.weight.rows() && l.dinp.count() == l.inp.count(),
                "linear loss: inp {}, weight {}, logits {}, lse {}, target {}, targets {}, dinp {}",
                l.inp.shape().text(), l.weight.shape().text(), l.logits.shape().text(),
                l.lse.shape().text(), l.target.shape().text(), l.targets.shape().text(),
                l.dinp.shape().text());
  if (l.logits.count() > 0 && do_linear_loss(l)) return;
  linear_forward(l.logits, l.inp, l.weight, {});
  cross_entropy_in_place(l.lse, l.target, l.loss_sum, l.logits, l.targets, l.scale, l.vocab);
  linear_backward_weight(l.dweight, {}, l.inp, l.logits, l.mode);
  linear_backward_input(l.dinp, l.logits, l.weight);
}

}  // namespace stretto
