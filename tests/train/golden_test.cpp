// Against PyTorch: logits and every gradient of one batch, and the losses of 50 AdamW steps. The
// files and the script that made them: tests/goldens, tools/make_goldens.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "account/parameters.h"
#include "base/random.h"
#include "model/host_values.h"
#include "train/training.h"

namespace stretto {
namespace {

struct Golden {
  nlohmann::json index;
  std::string bytes;

  explicit Golden(const std::string& name) {
    const char* moved = std::getenv("STRETTO_SOURCE_DIR");  // another machine (tools/gpu-check)
    const std::string path =
        std::string(moved ? moved : STRETTO_SOURCE_DIR) + "/tests/goldens/" + name;
    std::ifstream(path + ".json") >> index;
    std::ostringstream content;
    content << std::ifstream(path + ".bin", std::ios::binary).rdbuf();
    bytes = content.str();
  }
  template <typename T>
  const T* at(const std::string& key) const {
    return reinterpret_cast<const T*>(bytes.data() + index["tensors"][key]["offset"].get<size_t>());
  }
};

Config golden_config(const Golden& golden, bool alibi) {
  Config config = tiny_config();
  const auto& g = golden.index;
  const auto n = [&](const char* key) { return g[key].get<int64_t>(); };
  config.model = {"golden",   n("layers"),  n("hidden"),    n("heads"),
                  n("vocab"), n("seq_len"), 4 * n("hidden")};
  config.model.position_kind = alibi ? Positions::alibi : Positions::learned;
  config.seq_len = n("seq_len");
  config.micro_batch = config.global_batch = n("batch");
  config.train.schedule = LrSchedule::constant;
  config.train.warmup = 0;
  config.train.lr = g["lr"];
  config.train.weight_decay = g["weight_decay"];
  config.train.clip = g["clip"];
  return config;
}

// |a - b| <= bound * largest |b|: what a float sum of this length can lose.
void expect_close(const float* a, const float* b, int64_t count, double bound,
                  const std::string& what) {
  double worst = 0, scale = 0;
  for (int64_t i = 0; i < count; ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - b[i]));
    scale = std::max(scale, std::fabs(static_cast<double>(b[i])));
  }
  EXPECT_LE(worst, bound * scale) << what;
}

// The golden model on one rank.
class GoldenRun {
 public:
  GoldenRun(const Golden& golden, const Config& config, Comm& world)
      : golden_(golden), trainer_(config, world), mb_{0, 0, config.micro_batch} {
    const FlatLayout& layout = gpt().layout();
    for (size_t u = 0; u < layout.units.size(); ++u) {
      for (const FlatParameter& p : layout.units[u].parameters) {
        const float* const weight = golden.at<float>("weight/" + p.spec.name);
        std::vector<float> padded(weight, weight + real_count(p.spec, config.model));
        padded.resize(static_cast<size_t>(p.count));
        trainer_.optimizer().assign(u, p.offset, padded.data(), p.count);
      }
    }
    tokens_.resize(static_cast<size_t>(config.micro_batch * config.seq_len));
    targets_.resize(tokens_.size());
  }

  Gpt& gpt() { return trainer_.gpt(); }
  Backend& backend() { return trainer_.backend(); }

  void start(int64_t step, float scale) {
    const int64_t B = trainer_.config().micro_batch, T = trainer_.config().seq_len;
    const int32_t* stream = golden_.at<int32_t>("tokens") + step * B * (T + 1);
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t t = 0; t < T; ++t) {
        tokens_[static_cast<size_t>(b * T + t)] = stream[b * (T + 1) + t];
        targets_[static_cast<size_t>(b * T + t)] = stream[b * (T + 1) + t + 1];
      }
    }
    gpt().begin_step(1, scale);
    gpt().set_batch(0, mb_, tokens_.data(), targets_.data());
  }
  void forward_only() {
    start(0, 1.0f);
    gpt().forward(0, mb_, false);
  }
  // Loss and gradients of one batch.
  double run(int64_t step) {
    const auto count = static_cast<double>(tokens_.size());
    start(step, static_cast<float>(1 / count));
    gpt().forward(0, mb_);
    gpt().backward(0, mb_, gpt().dstream(0, mb_));
    gpt().gradients().finish_step(nullptr);
    double loss = 0;
    backend().copy_to_host(&loss, gpt().loss_sums().slice(0, 1));
    return loss / count;
  }
  StepResult update(int64_t step) {
    return trainer_.optimizer().step(trainer_.config().train.lr, 1, step + 1);
  }

 private:
  const Golden& golden_;
  Trainer trainer_;
  MicroBatch mb_;
  std::vector<int32_t> tokens_, targets_;
};

std::vector<float> real_logits(GoldenRun& run) {
  const Tensor logits = run.gpt().memory().at("loss.logits");
  const std::vector<float> all = host_values(run.backend(), logits);
  std::vector<float> real;
  for (int64_t row = 0; row < logits.rows(); ++row) {
    const auto begin = all.begin() + row * logits.last();
    real.insert(real.end(), begin, begin + run.gpt().shape().model.vocab);
  }
  return real;
}

void check(const std::string& name, bool alibi) {
  const Golden golden(name);
  const Config config = golden_config(golden, alibi);
  const auto steps = golden.index["steps"].get<int64_t>();
  run_thread_ranks(1, [&](Comm& world) {
    GoldenRun run(golden, config, world);
    run.forward_only();
    expect_close(real_logits(run).data(), golden.at<float>("logits"),
                 config.micro_batch * config.seq_len * config.model.vocab, 2e-6, "logits");
    const FlatLayout& layout = run.gpt().layout();
    for (int64_t step = 0; step < steps; ++step) {
      const double loss = run.run(step);
      EXPECT_NEAR(loss, golden.at<float>("losses")[step], 1e-5 * loss) << "step " << step;
      for (size_t u = 0; u < layout.units.size() && step == 0; ++u) {
        for (const FlatParameter& p : layout.units[u].parameters) {
          const auto grad =
              host_values(run.backend(), run.gpt().gradients().parameter(u, p.spec.name));
          const int64_t count = real_count(p.spec, config.model);
          expect_close(grad.data(), golden.at<float>("grad/" + p.spec.name), count, 1e-5,
                       p.spec.name);
          EXPECT_TRUE(std::all_of(grad.begin() + count, grad.begin() + p.count, [](float x) {
            return x == 0;
          })) << p.spec.name;
        }
      }
      const StepResult result = run.update(step);
      EXPECT_NEAR(result.grad_norm, golden.at<float>("norms")[step], 1e-4 * result.grad_norm);
    }
  });
}

// Distances from PyTorch's fp32 curve, ours in bf16 and PyTorch's own in bf16. Both round the same
// values, in another order of sums, so neither may stray much farther than the other.
void check_bf16(const std::string& name, bool alibi) {
  const Golden golden(name);
  Config config = golden_config(golden, alibi);
  config.precision = Precision::amp_bf16;
  const auto steps = golden.index["steps"].get<int64_t>();
  double ours = 0, theirs = 0, ours_mean = 0, theirs_mean = 0;
  run_thread_ranks(1, [&](Comm& world) {
    GoldenRun run(golden, config, world);
    for (int64_t step = 0; step < steps; ++step) {
      const double exact = static_cast<double>(golden.at<float>("losses")[step]);
      const double narrow = static_cast<double>(golden.at<float>("losses_bf16")[step]);
      const double mine = std::fabs(run.run(step) - exact) / exact;
      const double other = std::fabs(narrow - exact) / exact;
      ours = std::max(ours, mine);
      theirs = std::max(theirs, other);
      ours_mean += mine / static_cast<double>(steps);
      theirs_mean += other / static_cast<double>(steps);
      run.update(step);
    }
  });
  fmt::print(
      "{}: bf16 differs from fp32 by {:.2e} at most, {:.2e} on average (PyTorch: {:.2e}, {:.2e})\n",
      name, ours, ours_mean, theirs, theirs_mean);
  EXPECT_LE(ours, 2 * theirs);
  EXPECT_LE(ours_mean, 2 * theirs_mean);
}

TEST(Golden, LearnedPositionsFollowPyTorch) { check("gpt_learned", false); }
TEST(Golden, AlibiFollowsPyTorch) { check("gpt_alibi", true); }
TEST(Golden, Bf16StraysAsPyTorchDoes) { check_bf16("gpt_learned", false); }
TEST(Golden, AlibiBf16StraysAsPyTorchDoes) { check_bf16("gpt_alibi", true); }

// (L(p + h v) - L(p - h v)) / 2h equals <gradient, v> for a random direction v.
TEST(Golden, DirectionalDerivative) {
  if (test_device() != Device::cpu) GTEST_SKIP() << "reads tensors in place";
  const Golden golden("gpt_learned");
  const Config config = golden_config(golden, false);
  run_thread_ranks(1, [&](Comm& world) {
    Trainer trainer(config, world);
    trainer.initialise();
    Gpt& gpt = trainer.gpt();
    const Tensor weights = gpt.memory().at("weights");
    const MicroBatch mb{0, 0, config.micro_batch};
    std::vector<int32_t> tokens(static_cast<size_t>(config.micro_batch * config.seq_len));
    std::vector<int32_t> targets(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>(i * 7 % 61);
      targets[i] = static_cast<int32_t>(i * 11 % 61);
    }
    auto loss = [&](bool train) {
      gpt.begin_step(1, 1.0f);
      gpt.set_batch(0, mb, tokens.data(), targets.data());
      gpt.forward(0, mb, train);
      double sum = 0;
      trainer.backend().copy_to_host(&sum, gpt.loss_sums().slice(0, 1));
      if (train) {
        gpt.backward(0, mb, gpt.dstream(0, mb));
        gpt.gradients().finish_step(nullptr);
      }
      return sum;
    };
    loss(true);
    const CounterRng rng(5, 5);
    const auto count = static_cast<size_t>(weights.count());
    std::vector<float> saved(weights.as<float>(), weights.as<float>() + count), v(count, 0.0f);
    double expected = 0;
    for (size_t u = 0; u < gpt.layout().units.size(); ++u) {
      for (const FlatParameter& p : gpt.layout().units[u].parameters) {
        const Tensor grad = gpt.gradients().parameter(u, p.spec.name);
        for (int64_t i = 0; i < p.count; ++i) {
          const auto at = static_cast<size_t>(p.offset + i);
          v[at] = rng.normal(at);
          expected += static_cast<double>(v[at]) * static_cast<double>(grad.as<float>()[i]);
        }
      }
    }
    const float h = 2e-4f;
    auto shifted = [&](float by) {
      for (size_t i = 0; i < count; ++i) weights.as<float>()[i] = saved[i] + by * v[i];
      return loss(false);
    };
    const double measured = (shifted(h) - shifted(-h)) / (2.0 * static_cast<double>(h));
    // Third-order term h^2 L''' / 6, plus float rounding of two losses over 2h.
    EXPECT_NEAR(measured, expected, 2e-3 * std::fabs(expected) + 0.1);
  });
}

}  // namespace
}  // namespace stretto
