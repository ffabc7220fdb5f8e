// The fused products against plain loops in double: borders of tiles, one row, optional operands.
// Skipped without a GPU, and where they are not built in or do not fit the GPU.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "backend/cuda/cuda_options.h"
#include "backend/cuda/fused/fused_product.h"
#include "reference/linear.h"
#include "support/ops.h"

namespace stretto::test {
namespace {

using cuda::FusedProduct;
using Kind = FusedProduct::Kind;

constexpr DType kType = DType::bf16;

// A copy in device memory; brought back into the operand on demand.
class OnDevice {
 public:
  explicit OnDevice(const Operand& host) : host_(host), bytes_(host.tensor().bytes()) {
    EXPECT_EQ(cudaMalloc(&data_, bytes_), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, host.tensor().data(), bytes_, cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  void* get() const { return data_; }
  void bring_back() const {
    EXPECT_EQ(cudaMemcpy(host_.tensor().data(), data_, bytes_, cudaMemcpyDeviceToHost),
              cudaSuccess);
  }

 private:
  const Operand& host_;
  size_t bytes_;
  void* data_ = nullptr;
};

struct Sizes {
  int64_t rows, n, k;
};
constexpr Sizes kSizes[] = {{1, 256, 8}, {300, 256, 136}, {129, 768, 64}, {1024, 512, 200}};

class Fused : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    cudaDeviceProp properties{};
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    capability_ = 10 * properties.major + properties.minor;
    FusedProduct p;
    p.kind = GetParam();
    p.form = Gelu::tanh;
    p.rows = p.n = p.k = 256;
    if (!cuda::fused_fits(p, capability_)) GTEST_SKIP() << "built without, or another GPU";
  }
  int capability_ = 0;
};

TEST_P(Fused, AgreesWithPlainLoops) {
  const Kind kind = GetParam();
  const bool backward = kind == Kind::dgelu;
  for (const auto& [rows, n, k] : kSizes) {
    SCOPED_TRACE(fmt::format("rows {} n {} k {}", rows, n, k));
    const double root = std::sqrt(static_cast<double>(k));
    const Operand inp = Operand::random(kType, {rows, k}, 1);
    const Operand weight =
        Operand::random(kType, backward ? Shape{k, n} : Shape{n, k}, 2, 1 / root);
    const Operand bias = Operand::random(kType, {n}, 3);
    const Operand addend = Operand::random(kType, {rows, n}, 4);
    const Operand before = Operand::random(kType, {rows, n}, 5, 2);
    const Values product =
        backward
            ? reference::linear_backward_input(inp.values(), weight.values(), rows, k, n)
            : reference::linear_forward(inp.values(), weight.values(), bias.values(), rows, n, k);
    const Operand out = Operand::output(kType, {rows, n});
    Operand pre = Operand::output(kType, {rows, n});
    if (backward) pre.set(before.values());
    const int64_t parts = cuda::fused_parts(rows);
    const Operand partial = Operand::output(DType::f32, {parts, n});
    const OnDevice d_inp(inp), d_weight(weight), d_bias(bias), d_addend(addend), d_out(out),
        d_pre(pre), d_partial(partial);
    FusedProduct p;
    p.kind = kind;
    p.form = Gelu::tanh;
    p.rows = rows;
    p.n = n;
    p.k = k;
    p.inp = d_inp.get();
    p.weight = d_weight.get();
    p.out = d_out.get();
    if (!backward) p.bias = d_bias.get();
    if (kind == Kind::gelu || backward) p.pre = d_pre.get();
    if (kind == Kind::add) p.addend = d_addend.get();
    if (backward) p.partial = static_cast<float*>(d_partial.get());
    ASSERT_TRUE(cuda::fused_fits(p, capability_));
    cuda::run_fused(p, nullptr);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (const OnDevice* d : {&d_out, &d_pre, &d_partial}) d->bring_back();

    Values expected = product;
    const Values at = kind == Kind::gelu ? pre.values() : before.values();
    const Values added = addend.values();
    for (size_t i = 0; i < expected.size(); ++i) {
      if (kind == Kind::add) expected[i] += added[i];
      if (kind == Kind::gelu) expected[i] = reference::gelu(at[i], Gelu::tanh);
      if (backward) expected[i] *= reference::gelu_grad(at[i], Gelu::tanh);
    }
    EXPECT_TRUE(close(out, expected, kType, 2.4, 4));
    if (kind == Kind::gelu) {
      EXPECT_TRUE(close(pre, product, kType, 2, 4));
    }
    if (!backward) continue;
    EXPECT_TRUE(pre.same_bits(before));
    const Values found = partial.values();
    const Values sums = reference::column_sums(out.values(), rows, n);
    const double allowed = 1e-5 * (1 + std::sqrt(static_cast<double>(rows)));
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t part = 0; part < parts; ++part) sum += found[static_cast<size_t>(part * n + j)];
      EXPECT_NEAR(sum, sums[static_cast<size_t>(j)], allowed) << "column " << j;
    }
  }
}

// Neither a null bias nor a value before GELU that nobody wants is touched.
TEST_P(Fused, OptionalOperandsMayBeMissing) {
  const Kind kind = GetParam();
  const int64_t rows = 200, n = 128, k = 72;
  const bool backward = kind == Kind::dgelu;
  const Operand inp = Operand::random(kType, {rows, k}, 1);
  const Operand weight = Operand::random(kType, backward ? Shape{k, n} : Shape{n, k}, 2, 0.1);
  const Operand other = Operand::random(kType, {rows, n}, 3);
  const Operand out = Operand::output(kType, {rows, n});
  const OnDevice d_inp(inp), d_weight(weight), d_other(other), d_out(out);
  FusedProduct p;
  p.kind = kind;
  p.form = Gelu::tanh;
  p.rows = rows;
  p.n = n;
  p.k = k;
  p.inp = d_inp.get();
  p.weight = d_weight.get();
  p.out = d_out.get();
  if (backward) p.pre = d_other.get();
  if (kind == Kind::add) p.addend = d_other.get();
  cuda::run_fused(p, nullptr);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  d_out.bring_back();
  Values expected =
      backward ? reference::linear_backward_input(inp.values(), weight.values(), rows, k, n)
               : reference::linear_forward(inp.values(), weight.values(), {}, rows, n, k);
  const Values at = other.values();
  for (size_t i = 0; i < expected.size(); ++i) {
    if (kind == Kind::add) expected[i] += at[i];
    if (kind == Kind::gelu) expected[i] = reference::gelu(expected[i], Gelu::tanh);
    if (backward) expected[i] *= reference::gelu_grad(at[i], Gelu::tanh);
  }
  EXPECT_TRUE(close(out, expected, kType, 3, 4));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Fused,
                         testing::Values(Kind::bias, Kind::add, Kind::gelu, Kind::dgelu));

}  // namespace
}  // namespace stretto::test
