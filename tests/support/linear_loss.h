// A head in training (Backend::linear_loss) against the reference in double.
#pragma once

#include <algorithm>
#include <cmath>

#include "backend/backend.h"
#include "reference/cross_entropy.h"
#include "reference/linear.h"
#include "support/ops.h"

namespace stretto::test {

struct HeadCase {
  int64_t rows, words, padding, k;
};

// Every fifth row does not count.
inline Operand head_targets(const HeadCase& c) {
  const CounterRng rng(5, 6);
  Values values;
  for (int64_t r = 0; r < c.rows; ++r) {
    const auto target = rng.bits(static_cast<uint64_t>(r)) % static_cast<uint64_t>(c.words);
    values.push_back(r % 5 == 4 ? -1.0 : static_cast<double>(target));
  }
  return Operand(DType::i32, {c.rows}, values);
}

struct HeadResults {
  Operand dinp, dweight, loss, lse, target;
};

// In place: the gradient takes the input's place, as in the model.
inline HeadResults run_head(Backend& backend, const HeadCase& c, const Operand& inp,
                            const Operand& weight, const Operand& targets, double scale, Grad mode,
                            const Operand& dweight, bool in_place) {
  const DType type = inp.tensor().dtype();
  HeadResults r{in_place ? inp : Operand::output(type, {c.rows, c.k}), dweight,
                Operand(DType::f64, {1}, {1.5}), Operand::output(DType::f32, {c.rows}),
                Operand::output(DType::f32, {c.rows})};
  const Operand logits = Operand::output(type, {c.rows, c.words + c.padding});
  backend.linear_loss({.dinp = r.dinp,
                       .dweight = r.dweight,
                       .loss_sum = r.loss,
                       .inp = in_place ? ConstTensor(r.dinp) : ConstTensor(inp),
                       .weight = weight,
                       .targets = targets,
                       .scale = Operand(DType::f32, {1}, {scale}),
                       .vocab = {0, c.words},
                       .mode = mode,
                       .logits = logits,
                       .lse = r.lse,
                       .target = r.target});
  return r;
}

inline void expect_head_agrees(Backend& backend, DType type, const HeadCase& c) {
  SCOPED_TRACE(
      fmt::format("{} ({}, {} + {}, {})", dtype_name(type), c.rows, c.words, c.padding, c.k));
  const int64_t columns = c.words + c.padding;
  const double root = std::sqrt(static_cast<double>(c.k)), scale = 0.25;
  const Operand inp = Operand::random(type, {c.rows, c.k}, 1);
  const Operand weight = Operand::random(type, {columns, c.k}, 2, 1 / root);
  const Operand targets = head_targets(c);
  const auto n = static_cast<size_t>(c.words);
  const Values x =
      reference::linear_forward(inp.values(), weight.values(), {}, c.rows, columns, c.k);
  const Values dlogits = reference::cross_entropy_backward(x, targets.values(), n, scale);
  const Values dinp =
      reference::linear_backward_input(dlogits, weight.values(), c.rows, columns, c.k);
  const Values dweight =
      reference::linear_backward_weight(inp.values(), dlogits, c.rows, columns, c.k);
  for (const Grad mode : {Grad::overwrite, Grad::accumulate}) {
    const Operand before = Operand::random(DType::f32, {columns, c.k}, 3, 0.1);
    Values expected = dweight;
    const Values old = before.values();
    if (mode == Grad::accumulate) {
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += old[i];
    }
    const HeadResults r =
        run_head(backend, c, inp, weight, targets, scale, mode, before, mode == Grad::accumulate);
    const double epsilon = dtype_epsilon(type);     // logits rounded to this type are this far off
    const auto rows = static_cast<double>(c.rows);  // each is off by its own rounding
    EXPECT_NEAR(r.loss.values()[0] - 1.5, reference::cross_entropy(x, targets.values(), n),
                epsilon * std::min(4 * rows, 16 * std::sqrt(rows)));
    EXPECT_TRUE(close(r.lse, reference::row_lse(x, static_cast<size_t>(columns), n), type, 2));
    EXPECT_TRUE(close(r.dinp, dinp, type, 8));
    EXPECT_TRUE(close(r.dweight, expected, type, 8, max_abs(dweight)));
  }
}

}  // namespace stretto::test
