#include "backend/operator.h"

namespace stretto {

void Backend::cross_entropy_forward(Tensor lse, Tensor target, ConstTensor logits,
                                    ConstTensor targets, VocabRange vocab) {
  if (logits.count() == 0) return;
  check_count("cross entropy: lse", lse, logits.rows());
  check_count("cross entropy: target", target, logits.rows());
  check_count("cross entropy: targets", targets, logits.rows());
  check_type("cross entropy: targets", targets, DType::i32);
  Range range(*this, Op::cross_entropy_forward, 0, sizes_of(logits));
  do_cross_entropy_forward(lse, target, logits, targets, vocab);
}

void Backend::combine_lse(Tensor lse, ConstTensor parts) {
  if (lse.count() == 0) return;
  STRETTO_CHECK(parts.count() % lse.count() == 0);
  Range range(*this, Op::cross_entropy_forward, 0, sizes_of(lse, parts));
  do_combine_lse(lse, parts);
}

void Backend::cross_entropy_loss(Tensor loss_sum, ConstTensor lse, ConstTensor target,
                                 ConstTensor targets) {
  if (lse.count() == 0) return;
  check_type("cross entropy: loss_sum", loss_sum, DType::f64);
  check_count("cross entropy: target", target, lse.count());
  check_count("cross entropy: targets", targets, lse.count());
  Range range(*this, Op::cross_entropy_forward, 0, sizes_of(lse, target));
  do_cross_entropy_loss(loss_sum, lse, target, targets);
}

void Backend::cross_entropy_backward(Tensor logits, ConstTensor lse, ConstTensor targets,
                                     ConstTensor scale, VocabRange vocab) {
  if (logits.count() == 0) return;
  check_count("cross entropy: lse", lse, logits.rows());
  check_count("cross entropy: targets", targets, logits.rows());
  check_count("cross entropy: scale", scale, 1);
  Range range(*this, Op::cross_entropy_backward, 0, 2 * size_of(logits));
  do_cross_entropy_backward(logits, lse, targets, scale, vocab);
}

void Backend::cross_entropy_in_place(Tensor lse, Tensor target, Tensor loss_sum, Tensor logits,
                                     ConstTensor targets, ConstTensor scale, VocabRange vocab) {
  if (logits.count() == 0) return;
  check_count("cross entropy: lse", lse, logits.rows());
  check_count("cross entropy: target", target, logits.rows());
  check_count("cross entropy: targets", targets, logits.rows());
  check_count("cross entropy: scale", scale, 1);
  if (fuses_cross_entropy(logits)) {
    Range range(*this, Op::cross_entropy_backward, 0, 2 * size_of(logits));
    do_cross_entropy_in_place(lse, target, loss_sum, logits, targets, scale, vocab);
    return;
  }
  cross_entropy_forward(lse, target, logits, targets, vocab);
  cross_entropy_loss(loss_sum, lse, target, targets);
  cross_entropy_backward(logits, lse, targets, scale, vocab);
}

void Backend::linear_loss(const LinearLoss& l) {
  const int64_t rows = l.inp.rows();
  check_count("linear loss: logits", l.logits, rows * l.weight.rows());
  check_same("linear loss: dinp", l.dinp, l.inp);
  check_count("linear loss: lse", l.lse, rows);
  check_count("linear loss: target", l.target, rows);
  check_count("linear loss: targets", l.targets, rows);
  check_count("linear loss: scale", l.scale, 1);
  if (l.logits.count() > 0 && do_linear_loss(l)) return;
  linear_forward(l.logits, l.inp, l.weight, {});
  cross_entropy_in_place(l.lse, l.target, l.loss_sum, l.logits, l.targets, l.scale, l.vocab);
  linear_backward_weight(l.dweight, {}, l.inp, l.logits, l.mode);
  linear_backward_input(l.dinp, l.logits, l.weight);
}

}  // namespace stretto
