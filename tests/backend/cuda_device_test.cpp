// What only shows with tensors that stay in device memory: recorded work, and operators that share
// what they derived from an operand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <list>
#include <string>
#include <vector>

#include "backend/cuda/cuda_options.h"
#include "support/ops.h"

namespace stretto::test {
namespace {

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    CudaOptions options;
    options.tune = false;
    gpu_ = make_cuda_backend(0, options);
  }
  Tensor upload(const Operand& host) {
    const ConstTensor t = host;
    buffers_.push_back(gpu_->allocate(t.bytes(), "operand"));
    const Tensor device(buffers_.back().data(), t.dtype(), t.shape());
    gpu_->copy_from_host(device, t.data());
    return device;
  }
  Operand download(ConstTensor device) {
    Operand host = Operand::output(device.dtype(), device.shape());
    gpu_->copy_to_host(host.tensor().data(), device);
    return host;
  }
  std::unique_ptr<Backend> gpu_;
  std::list<Buffer> buffers_;
};

TEST_F(OnDevice, RecordedWorkIsDoneEveryTime) {
  const Tensor sum = upload(Operand::zeros(DType::f32, {1000}));
  const Tensor one = upload(Operand::random(DType::f32, {1000}, 1));
  int calls = 0;
  const auto work = [&] {
    ++calls;
    gpu_->add(sum, sum, one);
  };
  const bool expected[] = {true, true, false, false};  // as it is, recorded, replayed, replayed
  for (const bool called : expected) EXPECT_EQ(gpu_->repeat(7, work), called);
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(gpu_->repeat(8, work)) << "another key is other work";
  EXPECT_EQ(gpu_->profile().of(Op::add).calls, 5u);
  Values five = download(one).values();
  for (double& x : five) x *= 5;
  EXPECT_TRUE(close(download(sum), five, DType::f32, 8));
}

// Column sums take their partial sums from memory that a larger sum makes grow and move.
TEST_F(OnDevice, RecordedWorkFindsMemoryThatHasGrown) {
  CudaOptions options;
  options.tune = false;
  options.scratch_bytes = 0;
  gpu_ = make_cuda_backend(0, options);
  const auto linear = [&](int64_t rows, int64_t n, Tensor dbias) {
    const Tensor dout = upload(Operand::random(DType::bf16, {rows, n}, 1));
    const Tensor inp = upload(Operand::random(DType::bf16, {rows, 8}, 2));
    const Tensor dweight = upload(Operand::zeros(DType::f32, {n, 8}));
    return [=, this] { gpu_->linear_backward_weight(dweight, dbias, inp, dout, Grad::overwrite); };
  };
  const Tensor small = upload(Operand::zeros(DType::f32, {64}));
  const auto work = linear(4096, 64, small);
  for (int i = 0; i < 3; ++i) gpu_->repeat(13, work);
  const Values before = download(small).values();
  const Tensor wide = upload(Operand::zeros(DType::f32, {1 << 16}));
  linear(512, 1 << 16, wide)();
  for (int i = 0; i < 3; ++i) {
    gpu_->fill_zero(small);
    gpu_->repeat(13, work);
    EXPECT_EQ(download(small).values(), before) << i;
  }
}

TEST_F(OnDevice, WorkThatWaitsIsLaunchedOneByOne) {
  const Tensor sum = upload(Operand::zeros(DType::f32, {8}));
  const Tensor one = upload(Operand(DType::f32, {8}, Values(8, 1.0)));
  float seen[8] = {};
  for (int i = 1; i <= 4; ++i) {
    EXPECT_TRUE(gpu_->repeat(9, [&] {
      gpu_->add(sum, sum, one);
      gpu_->copy_to_host(seen, sum);  // a graph cannot wait for itself
    }));
    EXPECT_EQ(seen[0], static_cast<float>(i));
  }
}

// A number that is sent is the one of its moment, whatever is queued behind it.
TEST_F(OnDevice, WhatIsSentArrivesWithItsEvent) {
  const Tensor sum = upload(Operand::zeros(DType::f32, {1 << 20}));
  const Tensor one = upload(Operand(DType::f32, {1 << 20}, Values(1 << 20, 1.0)));
  const Buffer host = gpu_->allocate_host(2 * sizeof(float), "two numbers");
  auto* numbers = static_cast<float*>(host.data());
  for (int round = 0; round < 3; ++round) {
    numbers[0] = numbers[1] = -1;
    gpu_->add(sum, sum, one);
    gpu_->start_copy_to_host(Lane::compute, numbers, sum.slice(0, 1));
    gpu_->start_copy_to_host(Lane::compute, numbers + 1, sum.slice((1 << 20) - 1, 1 << 20));
    const Event sent = gpu_->record(Lane::compute);
    for (int later = 0; later < 99; ++later) gpu_->add(sum, sum, one);
    gpu_->wait_on_host(sent);
    EXPECT_EQ(numbers[0], static_cast<float>(100 * round + 1));
    EXPECT_EQ(numbers[1], static_cast<float>(100 * round + 1));
  }
}

// More than the pinned slots hold, and not a whole number of them.
TEST_F(OnDevice, LargeBuffersArriveWhole) {
  const int64_t count = (21 << 20) / 4 + 3;
  Operand host(DType::i32, {count});
  auto* values = static_cast<int32_t*>(host.tensor().data());
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i * 7919 % 1000003);
  const Tensor device = upload(host);
  std::vector<int32_t> sent(values, values + count), back(static_cast<size_t>(count));
  std::fill(values, values + count, -1);  // the caller's memory is free again
  gpu_->copy_to_host(back.data(), device);
  EXPECT_EQ(back, sent);
}

// A replayed copy would bring the values of its recording.
TEST_F(OnDevice, CopiesFromTheHostAreNotRecorded) {
  const Tensor x = upload(Operand::zeros(DType::f32, {8}));
  for (int i = 1; i <= 4; ++i) {
    const std::vector<float> now(8, static_cast<float>(i));
    EXPECT_TRUE(gpu_->repeat(11, [&] { gpu_->copy_from_host(x, now.data()); }));
    EXPECT_EQ(download(x).values()[0], i);
  }
}

// Both gradients of a layer from one rounding of dout, or each from its own: the same bits.
TEST_F(OnDevice, EightBitGradientsShareTheirOperand) {
  const int64_t rows = 256, n = 192, k = 128;
  const Tensor inp = upload(Operand::random(DType::bf16, {rows, k}, 1));
  const Tensor weight = upload(Operand::random(DType::bf16, {n, k}, 2));
  const Tensor dout = upload(Operand::random(DType::bf16, {rows, n}, 3));
  struct Results {
    Tensor dinp, dweight, dbias;
  };
  const auto make = [&] {
    return Results{upload(Operand::zeros(DType::bf16, {rows, k})),
                   upload(Operand::zeros(DType::f32, {n, k})),
                   upload(Operand::zeros(DType::f32, {n}))};
  };
  const Results together = make(), apart = make();
  gpu_->eight_bit_products(true);
  gpu_->linear_backward(together.dinp, together.dweight, together.dbias, dout, inp, weight, {},
                        Grad::overwrite);
  gpu_->linear_backward_input(apart.dinp, dout, weight);
  gpu_->linear_backward_weight(apart.dweight, apart.dbias, inp, dout, Grad::overwrite);
  EXPECT_TRUE(download(together.dinp).same_bits(download(apart.dinp)));
  EXPECT_TRUE(download(together.dweight).same_bits(download(apart.dweight)));
  EXPECT_TRUE(download(together.dbias).same_bits(download(apart.dbias)));

  // The gradient at the same address next time is another one.
  const Operand other = Operand::random(DType::bf16, {rows, n}, 4);
  gpu_->copy_from_host(dout, other.tensor().data());
  gpu_->linear_backward(together.dinp, together.dweight, together.dbias, dout, inp, weight, {},
                        Grad::overwrite);
  gpu_->linear_backward_input(apart.dinp, dout, weight);
  EXPECT_TRUE(download(together.dinp).same_bits(download(apart.dinp)));
}

// As a rank of several whose process drives a GPU for each: workspaces from the driver's pool,
// which grow while the stream works, products timed into memory of the pool, and an error on its
// way out, after which nobody has freed what a later rank could be given. The process stays in that
// state, which changes nothing for the tests after this one.
TEST_F(OnDevice, MemoryInTheOrderOfItsStream) {
  const std::string cache = testing::TempDir() + "stretto_stream_memory.txt";
  const int64_t k = 64;
  const auto sums = [&](int64_t rows, int64_t n) {
    const Tensor dout = upload(Operand::random(DType::bf16, {rows, n}, 1));
    const Tensor inp = upload(Operand::random(DType::bf16, {rows, k}, 2));
    const Tensor dweight = upload(Operand::zeros(DType::f32, {n, k}));
    const Tensor dbias = upload(Operand::zeros(DType::f32, {n}));
    for (int i = 0; i < 3; ++i) {
      gpu_->linear_backward_weight(dweight, dbias, inp, dout, Grad::accumulate);
    }
    Values all = download(dbias).values();
    for (const double x : download(dweight).values()) all.push_back(x);
    return all;
  };
  const std::pair<int64_t, int64_t> shapes[] = {{4096, 64}, {512, 1 << 14}, {2048, 4096}};
  const auto run = [&](bool one_of_several) {
    buffers_.clear();
    CudaOptions options;
    options.tune_cache = cache;  // so that both use the same algorithms
    options.scratch_bytes = 0;
    options.one_of_several = one_of_several;
    gpu_ = make_cuda_backend(0, options);
    std::vector<Values> all;
    for (const auto& [rows, n] : shapes) all.push_back(sums(rows, n));
    return all;
  };
  std::remove(cache.c_str());
  const auto expected = run(false);
  EXPECT_EQ(run(true), expected);
  std::remove(cache.c_str());
  run(true);  // timed into the pool's memory
  try {
    const std::unique_ptr<Backend> lost = std::move(gpu_);
    const std::list<Buffer> memory = std::move(buffers_);
    throw Error(ExitCode::internal, "on its way", "");
  } catch (const Error&) {
  }
  run(true);
  std::remove(cache.c_str());
}

}  // namespace
}  // namespace stretto::test
