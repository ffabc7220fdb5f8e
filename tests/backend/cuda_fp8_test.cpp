// Matrix products with 8-bit operands: close to exact by the precision of the formats, in norm and
// in every element, and unchanged where a size does not allow them.
#include <gtest/gtest.h>

#include "backend/cuda/cuda_options.h"
#include "support/ops.h"
#include "support/staged_backend.h"

namespace stretto::test {
namespace {

struct Results {
  Operand out, pre, dinp, dweight, dbias, dbias_in;
};

Results run(Backend& backend, int64_t rows, int64_t n, int64_t k) {
  const DType type = DType::bf16;
  const Operand inp = Operand::random(type, {rows, k}, 1, 3.0);
  const Operand weight = Operand::random(type, {n, k}, 2, 0.02);
  const Operand bias = Operand::random(type, {n}, 3);
  const Operand dout = Operand::random(type, {rows, n}, 4, 1e-4);
  const Operand before = Operand::random(type, {rows, k}, 7);
  Results r{Operand::output(type, {rows, n}), Operand::output(type, {rows, n}),
            Operand::output(type, {rows, k}), Operand::random(DType::f32, {n, k}, 5, 1e-3),
            Operand::zeros(DType::f32, {n}),  Operand::zeros(DType::f32, {k})};
  LinearOptions options;
  options.gelu = Gelu::tanh;
  options.pre = r.pre;
  backend.linear_forward(r.out, inp, weight, bias, options);
  LinearInputGradOptions gradient;
  gradient.gelu = Gelu::tanh;
  gradient.pre = before;
  gradient.dbias = r.dbias_in;
  backend.linear_backward_input(r.dinp, dout, weight, gradient);
  backend.linear_backward_weight(r.dweight, r.dbias, inp, dout, Grad::accumulate);
  return r;
}

double relative_error(const Operand& actual, const Operand& expected) {
  const Values a = actual.values(), e = expected.values();
  double error = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - e[i]) * (a[i] - e[i]);
    size += e[i] * e[i];
  }
  return std::sqrt(error / size);
}

class EightBit : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    CudaOptions options;
    options.tune = false;
    gpu_ = make_staged_backend(make_cuda_backend(0, options));
  }
  std::unique_ptr<Backend> gpu_;
};

// Rounding to e4m3 moves an element by 2^-4 at most, 0.026 in the mean square; two such factors
// give 0.037, and one e5m2 factor (0.052) with one e4m3 factor 0.058.
TEST_F(EightBit, ProductsAgreeWithinTheFormats) {
  const Results exact = run(*gpu_, 512, 768, 1024);
  gpu_->eight_bit_products(true);
  const Results rounded = run(*gpu_, 512, 768, 1024), again = run(*gpu_, 512, 768, 1024);
  EXPECT_LT(relative_error(rounded.pre, exact.pre), 0.045);
  EXPECT_LT(relative_error(rounded.out, exact.out), 0.05);
  EXPECT_LT(relative_error(rounded.dinp, exact.dinp), 0.07);
  EXPECT_LT(relative_error(rounded.dweight, exact.dweight), 0.07);
  EXPECT_GT(relative_error(rounded.pre, exact.pre), 0.001) << "8-bit operands were not used";
  EXPECT_TRUE(close(rounded.dbias, exact.dbias.values(), DType::f32, 64));
  EXPECT_TRUE(rounded.out.same_bits(again.out) && rounded.dinp.same_bits(again.dinp) &&
              rounded.dweight.same_bits(again.dweight));
}

TEST_F(EightBit, OddSizesKeepTheirPrecision) {
  const Results exact = run(*gpu_, 65, 72, 40);
  gpu_->eight_bit_products(true);
  const Results same = run(*gpu_, 65, 72, 40);
  EXPECT_TRUE(exact.out.same_bits(same.out));
  EXPECT_TRUE(exact.dinp.same_bits(same.dinp));
}

}  // namespace
}  // namespace stretto::test
