// Against PyTorch: logits and every gradient of one batch, and the losses of 20 AdamW steps. The
// files and the script that made them: tests/goldens, tools/make_goldens.py.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/random.h"
#include "model/host_values.h"
#include "train/training.h"

namespace stretto {
namespace {

struct Golden {
  nlohmann::json index;
  std::string bytes;

  explicit Golden(const std::string& name) {
    const std::string path = std::string(STRETTO_SOURCE_DIR) + "/tests/goldens/" + name;
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

void check(const std::string& name, bool alibi) {
  const Golden golden(name);
  const Config config = golden_config(golden, alibi);
  const int64_t B = config.micro_batch, T = config.seq_len;
  run_thread_ranks(1, [&](Comm& world) {
    Trainer trainer(config, world);
    Gpt& gpt = trainer.gpt();
    Backend& backend = trainer.backend();
    const FlatLayout& layout = gpt.layout();
    for (size_t u = 0; u < layout.units.size(); ++u) {
      for (const FlatParameter& p : layout.units[u].parameters) {
        trainer.optimizer().assign(u, p.offset, golden.at<float>("weight/" + p.spec.name), p.count);
      }
    }
    std::vector<int32_t> tokens(static_cast<size_t>(B * T)), targets(tokens.size());
    auto load = [&](int64_t step) {
      const int32_t* stream = golden.at<int32_t>("tokens") + step * B * (T + 1);
      for (int64_t b = 0; b < B; ++b) {
        for (int64_t t = 0; t < T; ++t) {
          tokens[static_cast<size_t>(b * T + t)] = stream[b * (T + 1) + t];
          targets[static_cast<size_t>(b * T + t)] = stream[b * (T + 1) + t + 1];
        }
      }
    };
    const MicroBatch mb{0, 0, B};
    auto run_batch = [&](int64_t step) {
      load(step);
      gpt.begin_step(1, 1.0f / static_cast<float>(B * T));
      gpt.set_batch(0, mb, tokens.data(), targets.data());
      gpt.forward(0, mb);
      gpt.backward(0, mb, gpt.dstream(0, mb));
      gpt.gradients().finish_step(nullptr);
      double loss = 0;
      backend.copy_to_host(&loss, gpt.loss_sums().slice(0, 1));
      return loss / static_cast<double>(B * T);
    };

    load(0);
    gpt.begin_step(1, 1.0f);
    gpt.set_batch(0, mb, tokens.data(), targets.data());
    gpt.forward(0, mb, false);
    expect_close(host_values(backend, gpt.memory().at("loss.logits")).data(),
                 golden.at<float>("logits"), B * T * config.model.vocab, 2e-6, "logits");

    for (int64_t step = 0; step < 20; ++step) {
      const double loss = run_batch(step);
      EXPECT_NEAR(loss, golden.at<float>("losses")[step], 1e-5 * loss) << "step " << step;
      if (step == 0) {
        for (size_t u = 0; u < layout.units.size(); ++u) {
          for (const FlatParameter& p : layout.units[u].parameters) {
            const auto grad = host_values(backend, gpt.gradients().parameter(u, p.spec.name));
            expect_close(grad.data(), golden.at<float>("grad/" + p.spec.name), p.count, 1e-5,
                         p.spec.name);
          }
        }
      }
      const StepResult result = trainer.optimizer().step(config.train.lr, 1, step + 1);
      EXPECT_NEAR(result.grad_norm, golden.at<float>("norms")[step], 1e-4 * result.grad_norm);
    }
  });
}

TEST(Golden, LearnedPositionsFollowPyTorch) { check("gpt_learned", false); }
TEST(Golden, AlibiFollowsPyTorch) { check("gpt_alibi", true); }

// (L(p + h v) - L(p - h v)) / 2h equals <gradient, v> for a random direction v.
TEST(Golden, DirectionalDerivative) {
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
