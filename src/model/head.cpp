#include "model/head.h"

#include <algorithm>

namespace stretto {

Head::Head(Backend& backend, TensorParallel& tp, Residual& residual, const RankShape& shape,
           const RankMemory& memory, Weights& weights, Gradients* gradients)
    : backend_(backend),
      tp_(tp),
      residual_(residual),
      shape_(shape),
      weights_(weights),
      gradients_(gradients),
      table_(shape),
      vocab_begin_(padded_vocab(shape.model, shape.tp) / shape.tp * tp.rank()),
      norm_unit_(weights.unit_index(Role::head)),
      matrix_unit_(shape.model.tied_embedding ? weights.unit_index(Role::tokens) : norm_unit_),
      loss_scale_(memory.at("loss.scale")),
      logits_(memory.at("loss.logits")),
      lse_(memory.at("loss.lse")),
      lse_parts_(memory.at("loss.lse_parts")),
      target_(memory.at("loss.target")),
      loss_sums_(memory.at("loss.sums")) {
  const char* matrix = shape.model.tied_embedding ? "wte" : "head";
  norm_weight_ = weights.parameter(norm_unit_, "ln_f.weight");
  norm_bias_ = weights.parameter(norm_unit_, "ln_f.bias");
  matrix_ = weights.parameter(matrix_unit_, matrix);
  if (gradients == nullptr) return;
  dnorm_weight_ = gradients->parameter(norm_unit_, "ln_f.weight");
  dnorm_bias_ = gradients->parameter(norm_unit_, "ln_f.bias");
  dmatrix_ = gradients->parameter(matrix_unit_, matrix);
}

void Head::begin_step(float loss_scale) {
  backend_.fill_zero(loss_sums_);
  backend_.copy_from_host(loss_scale_, &loss_scale);
}

void Head::normalise(const HeadActivations& h, Stream in) {
  weights_.get(norm_unit_);
  residual_.norm(in, h.stream, {h.norm, h.mean, h.rstd, norm_weight_, norm_bias_});
  weights_.get(matrix_unit_);
}

ConstTensor Head::logits(const HeadActivations& h, Stream in) {
  normalise(h, in);
  const Tensor logits = logits_.row_range(0, h.norm.rows());
  backend_.linear_forward(logits, h.norm, matrix_, {});
  return logits;
}

void Head::forward(const HeadActivations& h, ConstTensor targets, Stream in, const MicroBatch& mb,
                   bool train) {
  backend_.eight_bit_products(false);  // logits need full precision
  normalise(h, in);
  if (train) gradients_->open(matrix_unit_);
  // The gradient of h.norm overwrites h.norm: each chunk of rows is read before it is overwritten.
  const ConstTensor norm = tp_.gather(h.norm, mb.batch);
  const Tensor dnorm = tp_.partial(h.norm, mb.batch);
  const ConstTensor flat = targets.view({targets.count()});
  const int64_t n = norm.rows(), step = logits_.rows();
  for (int64_t begin = 0; begin < n; begin += step) {
    const int64_t end = std::min(n, begin + step);
    loss_rows(norm.row_range(begin, end), dnorm.row_range(begin, end), flat.slice(begin, end),
              mb.index, train);
  }
  if (!train) return;
  if (n == 0 && gradients_->matrix_mode(matrix_unit_) == Grad::overwrite) {
    backend_.fill_zero(dmatrix_);  // without rows nothing else writes it
  }
  tp_.reduce(h.norm, dnorm);
  if (table_.head_closes()) gradients_->close(matrix_unit_);
}

// Logits, loss and gradients of some rows.
void Head::loss_rows(ConstTensor inp, Tensor dinp, ConstTensor targets, int64_t micro_batch,
                     bool train) {
  const int64_t rows = inp.rows();
  const VocabRange vocab{vocab_begin_, shape_.model.vocab};
  const Tensor logits = logits_.row_range(0, rows);
  const Tensor lse = lse_.slice(0, rows), target = target_.slice(0, rows);
  const Tensor loss_sum = loss_sums_.slice(micro_batch, micro_batch + 1);
  if (train && shape_.tp == 1) {
    return backend_.linear_loss({.dinp = dinp,
                                 .dweight = dmatrix_,
                                 .loss_sum = loss_sum,
                                 .inp = inp,
                                 .weight = matrix_,
                                 .targets = targets,
                                 .scale = loss_scale_,
                                 .vocab = vocab,
                                 .mode = gradients_->matrix_mode(matrix_unit_),
                                 .logits = logits,
                                 .lse = lse,
                                 .target = target});
  }
  const Tensor lse_parts = lse_parts_.slice(0, rows * shape_.tp).view({shape_.tp, rows});
  backend_.linear_forward(logits, inp, matrix_, {});
  backend_.cross_entropy_forward(lse, target, logits, targets, vocab);
  tp_.comm().all_gather(lse_parts, lse);
  backend_.combine_lse(lse, lse_parts);
  tp_.comm().all_reduce(target);
  backend_.cross_entropy_loss(loss_sum, lse, target, targets);
  if (!train) return;
  backend_.cross_entropy_backward(logits, lse, targets, loss_scale_, vocab);
  backend_.linear_backward_weight(dmatrix_, {}, inp, logits, gradients_->matrix_mode(matrix_unit_));
  backend_.linear_backward_input(dinp, logits, matrix_);
}

void Head::backward(const HeadActivations& h, Tensor dstream, Tensor bias_below) {
  weights_.get(norm_unit_);
  gradients_->open(norm_unit_);
  backend_.layernorm_backward(dstream, dnorm_weight_, dnorm_bias_, h.norm, h.stream, h.mean, h.rstd,
                              norm_weight_, Grad::overwrite, bias_below);
  gradients_->close(norm_unit_);
}

}  // namespace stretto
