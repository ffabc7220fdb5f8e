// Where rules begin to hold: one less is fine, one more is not.
#include <algorithm>

#include "config/registry.h"
#include "config/rules.h"
#include "config/support.h"

namespace stretto {
namespace {

// What is just allowed, and the same with one more or less, which is not.
TEST(Rules, HoldUpToTheirLimits) {
  struct Limit {
    const char* rule;
    std::vector<std::string> most, beyond;
  };
  const Limit limits[] = {
      {"range", {"model.layers=10000"}, {"model.layers=10001"}},
      {"range", {"parallel.tp=1"}, {"parallel.tp=0"}},
      {"positions", {"seq_len=128"}, {"seq_len=129"}},
      {"world-size",
       {"parallel.dp=1024", "parallel.pp=1024", "global_batch=1024"},
       {"parallel.dp=1025", "parallel.pp=1024", "global_batch=1025"}},
      {"micro-batch",
       {"global_batch=8", "parallel.dp=2", "micro_batch=4"},
       {"global_batch=8", "parallel.dp=2", "micro_batch=5"}},
      {"pipeline-fill",
       {"parallel.pp=4", "global_batch=4", "micro_batch=1"},
       {"parallel.pp=4", "global_batch=3", "micro_batch=1"}},
      {"layers-pp", {"parallel.pp=4"}, {"parallel.pp=5"}},
      {"min-lr", {"train.lr=1e-3", "train.min_lr=1e-3"}, {"train.lr=1e-3", "train.min_lr=2e-3"}},
      {"warmup", {"train.steps=10", "train.warmup=10"}, {"train.steps=10", "train.warmup=11"}},
      {"decay",
       {"train.steps=10", "train.warmup=4", "train.decay=6"},
       {"train.steps=10", "train.warmup=4", "train.decay=7"}},
      {"loss-scale",
       {"train.loss_scale.initial=8", "train.loss_scale.minimum=8"},
       {"train.loss_scale.initial=7", "train.loss_scale.minimum=8"}},
      {"checkpoint-keep",
       {"output=x", "checkpoint.every=10", "checkpoint.keep_every=20"},
       {"output=x", "checkpoint.every=10", "checkpoint.keep_every=5"}},
      {"ramp-up-range",
       {"global_batch=8", "train.ramp_up.start=8", "train.ramp_up.increment=1",
        "train.ramp_up.samples=1"},
       {"global_batch=8", "train.ramp_up.start=9", "train.ramp_up.increment=1",
        "train.ramp_up.samples=1"}},
      {"gpu-sequences",
       {"device=cuda", "global_batch=65535", "micro_batch=65535"},
       {"device=cuda", "global_batch=65536", "micro_batch=65536"}},
      {"gpu-heads",
       {"device=cuda", "model.hidden=1024", "model.heads=128"},
       {"device=cuda", "model.hidden=1032", "model.heads=129"}},
      {"gpu-heads",
       {"device=cuda", "model.hidden=256", "model.heads=1"},
       {"device=cuda", "model.hidden=264", "model.heads=1"}},
      {"gpu-hidden",
       {"device=cuda", "model.hidden=16384", "model.heads=64"},
       {"device=cuda", "model.hidden=16388", "model.heads=68"}}};
  const auto breaks = [](std::vector<std::string> words, const char* rule) {
    words.insert(words.begin(), "tiny");
    const std::vector<Finding> findings = check_config(load_config(words).config);
    return std::any_of(findings.begin(), findings.end(),
                       [&](const Finding& f) { return std::string(rule) == f.rule; });
  };
  for (const Limit& limit : limits) {
    EXPECT_FALSE(breaks(limit.most, limit.rule)) << limit.rule << ": " << limit.most.back();
    EXPECT_TRUE(breaks(limit.beyond, limit.rule)) << limit.rule << ": " << limit.beyond.back();
  }
}

// What the rules accept is what the engine can cut, and nothing that it can cut is refused.
TEST(Rules, AcceptedMeansDivisible) {
  int accepted = 0;
  const int64_t degrees[] = {1, 2, 3, 4, 6, 8};
  for (const int64_t tp : degrees) {
    for (const int64_t pp : degrees) {
      for (const int64_t dp : degrees) {
        for (int zero = 0; zero <= 3; ++zero) {
          Config c;
          c.model = find_model("tiny-10m");
          c.seq_len = 96;
          c.global_batch = 12;
          c.parallel.tp = tp;
          c.parallel.pp = pp;
          c.parallel.dp = dp;
          c.parallel.zero = zero;
          bool errors = false;
          for (const Finding& f : check_config(c)) errors |= f.severity == Severity::error;
          const bool fits = 6 % tp == 0 && pp <= 6 && 12 % dp == 0 && (zero < 2 || pp == 1);
          EXPECT_EQ(!errors, fits) << tp << " " << pp << " " << dp << " " << zero;
          accepted += fits ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace stretto
