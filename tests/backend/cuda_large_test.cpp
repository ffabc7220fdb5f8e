// Shapes of real models, where the plain loops of the reference would take minutes: the GPU against
// the cpu backend, which the other tests hold against the reference. Also graphs and repeatability.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "backend/cuda/cuda_options.h"
#include "support/linear_loss.h"
#include "support/ops.h"
#include "support/staged_backend.h"

namespace stretto::test {
namespace {

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    CudaOptions options;
    options.tune = false;
    gpu_ = make_staged_backend(make_cuda_backend(0, options));
    cpu_ = make_cpu_backend(4);
  }
  std::unique_ptr<Backend> gpu_, cpu_;
};

TEST_F(Gpu, LayerNormOfEveryWidthInUse) {
  for (const int64_t width : {768, 1024, 1536, 2048, 2560, 4096, 5120}) {
    SCOPED_TRACE(width);
    const int64_t rows = 531;
    const DType type = DType::bf16;
    const Operand a = Operand::random(type, {rows, width}, 1);
    const Operand b = Operand::random(type, {rows, width}, 2);
    const Operand weight = Operand::random(type, {width}, 3);
    const Operand bias = Operand::random(type, {width}, 4);
    const Operand dout = Operand::random(type, {rows, width}, 5);
    struct Results {
      Operand sum, out, mean, rstd, dinp, dweight, dbias;
    };
    const auto run = [&](Backend& backend) {
      Results r{Operand::output(type, {rows, width}),    Operand::output(type, {rows, width}),
                Operand::output(DType::f32, {rows}),     Operand::output(DType::f32, {rows}),
                Operand::random(type, {rows, width}, 6), Operand::zeros(DType::f32, {width}),
                Operand::zeros(DType::f32, {width})};
      backend.residual_layernorm_forward(r.sum, r.out, r.mean, r.rstd, a, b, weight, bias);
      backend.layernorm_backward(r.dinp, r.dweight, r.dbias, dout, r.sum, r.mean, r.rstd, weight,
                                 Grad::accumulate);
      return r;
    };
    const Results gpu = run(*gpu_), cpu = run(*cpu_);
    EXPECT_TRUE(gpu.sum.same_bits(cpu.sum));
    EXPECT_TRUE(close(gpu.out, cpu.out.values(), type, 1));
    EXPECT_TRUE(close(gpu.rstd, cpu.rstd.values(), DType::f32, 16));
    EXPECT_TRUE(close(gpu.dinp, cpu.dinp.values(), type, 1));
    EXPECT_TRUE(close(gpu.dweight, cpu.dweight.values(), DType::f32, 64));
    EXPECT_TRUE(close(gpu.dbias, cpu.dbias.values(), DType::f32, 64));
  }
}

// Blocks that take several items each, and dq that many of them add to: always in the same order.
// One of the backends has worked on another shape before.
TEST_F(Gpu, AttentionOfManyHeads) {
  std::unique_ptr<Backend> used;
  for (const int64_t D : {64, 128}) {
    SCOPED_TRACE(D);
    const int64_t B = 13, T = 1024, H = 768 / D;
    const DType type = DType::bf16;
    const Operand qkv = Operand::random(type, {B, T, 3, H, D}, 1, 1.5);
    const Operand dout = Operand::random(type, {B, T, H, D}, 2);
    AttentionOptions attention;
    attention.heads = attention.total_heads = H;
    struct Results {
      Operand out, lse, dqkv, sums;
    };
    const auto backend_with = [](const char* kernel) {
      CudaOptions options;
      options.attention = kernel;
      return make_staged_backend(make_cuda_backend(0, options));
    };
    const auto run = [&](Backend& gpu) {
      Results r{Operand::output(type, {B, T, H, D}), Operand::output(DType::f32, {B, H, T}),
                Operand::output(type, {B, T, 3, H, D}), Operand::zeros(DType::f32, {H * D})};
      gpu.attention_forward(r.out, r.lse, qkv, attention);
      gpu.attention_backward(r.dqkv, dout, qkv, r.out, r.lse, attention, r.sums);
      return r;
    };
    const Results expected = run(*backend_with("flash"));
    if (!used) used = backend_with("hopper");
    Values before, sums_before;
    for (int repeat = 0; repeat < 3; ++repeat) {
      const Results r = repeat < 2 ? run(*backend_with("hopper")) : run(*used);
      EXPECT_TRUE(close(r.out, expected.out.values(), type, 2));
      EXPECT_TRUE(close(r.lse, expected.lse.values(), DType::f32, 16));
      EXPECT_TRUE(close(r.dqkv, expected.dqkv.values(), type, 4));
      EXPECT_TRUE(close(r.sums, expected.sums.values(), type, 1,
                        max_abs(expected.dqkv.values()) * std::sqrt(double{B * T})));
      EXPECT_TRUE(r.out.guards_intact() && r.lse.guards_intact() && r.dqkv.guards_intact());
      if (repeat > 0) {
        EXPECT_EQ(r.dqkv.values(), before);
        EXPECT_EQ(r.sums.values(), sums_before);
      }
      before = r.dqkv.values();
      sums_before = r.sums.values();
    }
  }
}

// More rows than the card holds at once: blocks and warps walk them and fetch the next ones ahead.
TEST_F(Gpu, LayerNormWalksItsRows) {
  for (const int64_t width : {768, 1000, 1536, 2048, 2560, 4096}) {
    SCOPED_TRACE(width);
    const int64_t rows = 9001;
    const DType type = DType::bf16;
    const Operand inp = Operand::random(type, {rows, width}, 1);
    const Operand weight = Operand::random(type, {width}, 3);
    const Operand bias = Operand::random(type, {width}, 4);
    const auto run = [&](Backend& backend) {
      std::array<Operand, 3> r{Operand::output(type, {rows, width}),
                               Operand::output(DType::f32, {rows}),
                               Operand::output(DType::f32, {rows})};
      backend.layernorm_forward(r[0], r[1], r[2], inp, weight, bias);
      return r;
    };
    const auto gpu = run(*gpu_), cpu = run(*cpu_);
    EXPECT_TRUE(close(gpu[0], cpu[0].values(), type, 1));
    EXPECT_TRUE(close(gpu[2], cpu[2].values(), DType::f32, 16));
    EXPECT_TRUE(gpu[0].guards_intact());
  }
}

// An update in the middle between two neighbours goes up or down by the random bits alone. Sums are
// rounded differently here and there, which a few elements show.
TEST_F(Gpu, StochasticRoundingHasTheBitsOfTheCpu) {
  constexpr int64_t kCount = 100003;
  const Operand control(DType::f32, {2}, {1.0, 0.0});
  const Operand grad = Operand::random(DType::bf16, {kCount}, 3);
  const auto run = [&](Backend& backend) {
    Operand weight = Operand::random(DType::bf16, {kCount}, 1);
    Operand m = Operand::zeros(DType::bf16, {kCount}), v = m;
    AdamWOptions options;
    options.step = 3;
    options.lr = 1e-3f;
    options.seed = 11;
    options.first_index = (uint64_t{1} << 32) - 40000;  // crosses a multiple of 2^32
    backend.adamw(weight, {}, m, v, grad, control, options);
    return weight.values();
  };
  const Values gpu = run(*gpu_), cpu = run(*cpu_);
  int64_t different = 0;
  for (size_t i = 0; i < gpu.size(); ++i) different += gpu[i] != cpu[i] ? 1 : 0;
  EXPECT_LT(different, kCount / 1000);
}

// Every way there is: the library's product and a pass over its logits, and our own product that
// leaves exponentials. Widths around whole tiles (192) and whole boxes (64).
TEST_F(Gpu, LossOfAHeadInEveryWay) {
  for (const int way : {0, 1}) {
    SCOPED_TRACE(way);
    CudaOptions options;
    options.tune = false;
    options.way = way;
    const auto gpu = make_staged_backend(make_cuda_backend(0, options));
    for (const HeadCase& c : {HeadCase{256, 185, 7, 64},
                              {512, 1000, 24, 128},
                              {768, 193, 63, 192},
                              {1280, 2049, 7, 64},
                              {256, 5000, 8, 320}}) {
      expect_head_agrees(*gpu, DType::bf16, c);
    }
  }
}

// Words far likelier than the target leave large but finite numbers; NaN is not hidden.
TEST_F(Gpu, LossOfAHeadThatIsFarOff) {
  CudaOptions options;
  options.tune = false;
  options.way = 1;
  const auto gpu = make_staged_backend(make_cuda_backend(0, options));
  const HeadCase c{256, 384, 0, 64};
  const Operand weight = Operand::random(DType::bf16, {384, 64}, 2, 4), targets = head_targets(c);
  Operand inp = Operand::random(DType::bf16, {256, 64}, 1, 4);
  const auto run = [&] {
    return run_head(*gpu, c, inp, weight, targets, 1, Grad::overwrite,
                    Operand::output(DType::f32, {384, 64}), false);
  };
  const HeadResults far = run();
  EXPECT_GT(max_abs(far.loss.values()), 256 * 30.0);
  for (const Operand* o : {&far.loss, &far.dinp, &far.dweight}) {
    for (const double x : o->values()) ASSERT_TRUE(std::isfinite(x));
  }
  Values values = inp.values();
  values[3 * 64 + 5] = NAN;
  inp.set(values);
  const HeadResults nan = run();
  EXPECT_TRUE(std::isnan(nan.loss.values()[0]));
  EXPECT_TRUE(std::isnan(nan.lse.values()[3]));
  EXPECT_FALSE(std::isnan(nan.lse.values()[2]));
}

// A product with GELU, forward and back, beside the cpu's: in place, too, as checkpointing has it.
// Every way: in the library's epilogue, in passes, and in our own product.
TEST_F(Gpu, GeluOfAProductForwardAndBack) {
  struct Sizes {
    int64_t rows, n, k;
  };
  for (const DType type : {DType::bf16, DType::f16}) {
    for (const auto& [rows, n, k] : {Sizes{531, 1000, 264}, Sizes{512, 1024, 256},
                                     Sizes{1280, 3080, 192}, Sizes{256, 200, 64}}) {
      const Operand inp = Operand::random(type, {rows, k}, 1);
      const Operand weight =
          Operand::random(type, {n, k}, 2, 1 / std::sqrt(static_cast<double>(k)));
      const Operand bias = Operand::random(type, {n}, 3);
      const Operand dout = Operand::random(type, {rows, k}, 4);
      const Operand down = Operand::random(type, {k, n}, 5, 1 / std::sqrt(static_cast<double>(k)));
      struct Results {
        Operand act, dinp, dbias;
      };
      for (const bool in_place : {false, true}) {
        const auto run = [&](Backend& backend) {
          Results r{Operand::output(type, {rows, n}), Operand::output(type, {rows, n}),
                    Operand::zeros(DType::f32, {n})};
          const Operand pre = Operand::output(type, {rows, n});
          backend.linear_forward(r.act, inp, weight, bias, {.gelu = Gelu::tanh, .pre = pre});
          LinearInputGradOptions options{
              .gelu = Gelu::tanh, .pre = pre, .dbias = r.dbias, .act = {}};
          if (in_place) options.act = pre;
          backend.linear_backward_input(r.dinp, dout, down, options);
          if (in_place) r.act = pre;
          return r;
        };
        const Results cpu = run(*cpu_);
        for (const int way : {0, 1, 2}) {
          SCOPED_TRACE(fmt::format("{} x {} x {} {}, in place {}, way {}", rows, n, k,
                                   dtype_name(type), in_place, way));
          CudaOptions options;
          options.tune = false;
          options.way = way;
          const auto gpu_backend = make_staged_backend(make_cuda_backend(0, options));
          const Results gpu = run(*gpu_backend);
          EXPECT_TRUE(close(gpu.act, cpu.act.values(), type, 8));
          EXPECT_TRUE(close(gpu.dinp, cpu.dinp.values(), type, 8));
          EXPECT_TRUE(close(gpu.dbias, cpu.dbias.values(), type, 8));
        }
      }
    }
  }
}

// So many tiles that each group of warps of the product takes several: beside a product of the
// library's and a pass.
TEST_F(Gpu, GeluGradientOfManyTiles) {
  const int64_t rows = 4352, n = 3080, k = 128;
  const Operand dout = Operand::random(DType::bf16, {rows, k}, 1);
  const Operand down = Operand::random(DType::bf16, {k, n}, 2, 1 / std::sqrt(128.0));
  const Operand pre = Operand::random(DType::bf16, {rows, n}, 3, 2);
  struct Results {
    Operand dinp, dbias;
  };
  const auto run = [&](int way) {
    CudaOptions options;
    options.tune = false;
    options.way = way;
    Results r{Operand::output(DType::bf16, {rows, n}), Operand::zeros(DType::f32, {n})};
    make_staged_backend(make_cuda_backend(0, options))
        ->linear_backward_input(r.dinp, dout, down,
                                {.gelu = Gelu::tanh, .pre = pre, .dbias = r.dbias, .act = {}});
    return r;
  };
  const Results pass = run(1), own = run(2), again = run(2);
  EXPECT_TRUE(close(own.dinp, pass.dinp.values(), DType::bf16, 4));
  EXPECT_TRUE(close(own.dbias, pass.dbias.values(), DType::bf16, 4));
  EXPECT_TRUE(own.dinp.same_bits(again.dinp));
  EXPECT_TRUE(own.dbias.same_bits(again.dbias));
}

// Half of the tokens are the same one: runs cross many chunks of the sorted list.
TEST_F(Gpu, EmbeddingGradientOfFrequentTokens) {
  const int64_t batch = 4, length = 1024, width = 768, vocab = 300;
  Operand tokens(DType::i32, {batch, length});
  Values ids;
  const CounterRng rng(3, 4);
  for (int64_t i = 0; i < batch * length; ++i) {
    const uint64_t bits = rng.bits(static_cast<uint64_t>(i));
    ids.push_back(bits % 2 == 0 ? 17.0 : static_cast<double>(bits / 2 % vocab));
  }
  tokens.set(ids);
  const Operand dout = Operand::random(DType::bf16, {batch, length, width}, 1);
  const auto run = [&](Backend& backend) {
    std::vector<Operand> r = {Operand::random(DType::f32, {vocab, width}, 2),
                              Operand::random(DType::f32, {length, width}, 3)};
    backend.embedding_backward(r[0], r[1], dout, tokens);
    return r;
  };
  const auto gpu = run(*gpu_), again = run(*gpu_), cpu = run(*cpu_);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(close(gpu[i], cpu[i].values(), DType::f32, 64)) << i;
    EXPECT_TRUE(gpu[i].same_bits(again[i])) << i;
  }
}

TEST_F(Gpu, LinearLayerOfModelSize) {
  const int64_t rows = 1024, n = 3072, k = 768;
  const DType type = DType::bf16;
  const Operand inp = Operand::random(type, {rows, k}, 1);
  const Operand weight = Operand::random(type, {n, k}, 2, 0.04);
  const Operand bias = Operand::random(type, {n}, 3), dout = Operand::random(type, {rows, n}, 4);
  struct Results {
    Operand out, pre, dinp, dweight, dbias;
  };
  const auto run = [&](Backend& backend) {
    Results r{Operand::output(type, {rows, n}), Operand::output(type, {rows, n}),
              Operand::output(type, {rows, k}), Operand::random(DType::f32, {n, k}, 5),
              Operand::random(DType::f32, {n}, 6)};
    LinearOptions options;
    options.gelu = Gelu::tanh;
    options.pre = r.pre;
    backend.linear_forward(r.out, inp, weight, bias, options);
    backend.linear_backward_input(r.dinp, dout, weight);
    backend.linear_backward_weight(r.dweight, r.dbias, inp, dout, Grad::accumulate);
    return r;
  };
  const Results gpu = run(*gpu_), again = run(*gpu_), cpu = run(*cpu_);
  EXPECT_TRUE(close(gpu.out, cpu.out.values(), type, 2));
  EXPECT_TRUE(close(gpu.pre, cpu.pre.values(), type, 1));
  EXPECT_TRUE(close(gpu.dinp, cpu.dinp.values(), type, 1));
  EXPECT_TRUE(close(gpu.dweight, cpu.dweight.values(), DType::f32, 64));
  EXPECT_TRUE(close(gpu.dbias, cpu.dbias.values(), DType::f32, 64));
  EXPECT_TRUE(gpu.out.same_bits(again.out) && gpu.dinp.same_bits(again.dinp) &&
              gpu.dweight.same_bits(again.dweight) && gpu.dbias.same_bits(again.dbias));
}

}  // namespace
}  // namespace stretto::test
