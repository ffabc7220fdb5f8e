#include "support/linear_loss.h"

#include "support/threads.h"

namespace stretto::test {
namespace {

TEST(LinearLoss, AgreesWithDouble) {
  for (const DType type : kComputeTypes) {
    for (const HeadCase& c : {HeadCase{3, 17, 7, 16}, {40, 101, 11, 24}, {256, 250, 6, 64}}) {
      expect_head_agrees(cpu(), type, c);
    }
  }
}

TEST(LinearLoss, OfNoRowsLeavesNoGradient) {
  const HeadCase none{0, 17, 7, 16};
  const Operand weight = Operand::random(DType::f32, {24, 16}, 2);
  const HeadResults r =
      run_head(cpu(), none, Operand::output(DType::f32, {0, 16}), weight, head_targets(none), 1,
               Grad::overwrite, Operand::output(DType::f32, {24, 16}), false);
  EXPECT_EQ(r.loss.values()[0], 1.5);
  EXPECT_EQ(r.dweight.values(), Values(24 * 16, 0.0));
}

}  // namespace
}  // namespace stretto::test
