// Rules about the optimizer, its schedule, data, checkpoints and output.
#include <fmt/format.h>

#include <limits>

#include "config/rule_set.h"

namespace stretto {
namespace {

void learning_rate(const Config& c, Report& report) {
  if (c.train.lr <= 0) report.add("train.lr", "must be above zero", "use e.g. 6e-4");
}

void min_lr(const Config& c, Report& report) {
  if (c.train.min_lr <= c.train.lr) return;
  report.add("train.min_lr", "is more than " + shown(c, "train.lr"),
             fmt::format("use {} or less", c.train.lr));
}

// A run may be shortened to less than its warm-up, for example to try something: this is allowed,
// and the rise of lr simply ends with the run.
void warmup(const Config& c, Report& report) {
  if (c.train.warmup <= c.train.steps) return;
  report.add("train.warmup",
             fmt::format("is longer than {}, so that {} is not reached", shown(c, "train.steps"),
                         shown(c, "train.lr")),
             fmt::format("use {} or less", c.train.steps));
}

void decay(const Config& c, Report& report) {
  const int64_t room = c.train.steps - c.train.warmup;  // negative if the warm-up takes all steps
  if (c.train.schedule == LrSchedule::wsd && c.train.decay == 0) {
    report.add("train.decay", "is needed by " + shown(c, "train.schedule"),
               fmt::format("set train.decay={}", c.train.steps / 5 > 0 ? c.train.steps / 5 : 1));
  } else if (room >= 0 && c.train.decay > room) {
    report.add("train.decay",
               fmt::format("does not fit after {} into {}", shown(c, "train.warmup"),
                           shown(c, "train.steps")),
               room > 0 ? fmt::format("use {} or less", room)
                        : fmt::format("set train.steps={} or more, or a shorter train.warmup",
                                      c.train.warmup + c.train.decay));
  }
}

void adam(const Config& c, Report& report) {
  // Compared as f32, which the optimizer computes with.
  const auto reaches_one = [](double x) { return static_cast<float>(x) >= 1; };
  if (reaches_one(c.train.beta1)) report.add("train.beta1", "must be below one in f32", "use 0.9");
  if (reaches_one(c.train.beta2)) report.add("train.beta2", "must be below one in f32", "use 0.95");
  if (static_cast<float>(c.train.eps) < std::numeric_limits<float>::min()) {
    report.add("train.eps", "must be above 1.2e-38, the smallest normal f32", "use 1e-8");
  }
}

void loss_scale(const Config& c, Report& report) {
  const LossScale& s = c.train.loss_scale;
  if (s.minimum <= 0) {
    report.add("train.loss_scale.minimum", "must be above zero", "use 1");
  } else if (s.initial < s.minimum) {
    report.add("train.loss_scale.initial", "is below " + shown(c, "train.loss_scale.minimum"),
               fmt::format("use {} or more", s.minimum));
  }
}

void watchdog(const Config& c, Report& report) {
  if (c.train.watchdog <= 0) report.add("train.watchdog", "must be above zero", "use 5min");
}

void eval_data(const Config& c, Report& report) {
  if (!c.data.eval_path.empty() && c.data.path.empty()) {
    report.add("data.eval_path", "is given without data.path", "set data.path");
  }
  if (c.data.path.empty() || !c.data.eval_path.empty()) return;
  if (c.data.eval_fraction >= 1) {
    report.add("data.eval_fraction", "leaves nothing to train on", "use e.g. 0.05");
  } else if (c.train.eval_every > 0 && c.data.eval_fraction <= 0) {
    report.add("data.eval_fraction",
               "leaves nothing to evaluate with " + shown(c, "train.eval_every"),
               "use e.g. 0.05, or set data.eval_path");
  }
}

void needs_output(const Config& c, Report& report) {
  if (!c.output.empty()) return;
  if (c.checkpoint.every > 0) {
    report.add("checkpoint.every", "has nowhere to write: output is not set",
               "set output=runs/NAME, or checkpoint.every=0");
  }
  if (c.trace > 0) {
    report.add("trace", "has nowhere to write: output is not set",
               "set output=runs/NAME, or trace=0");
  }
  if (c.log.tensorboard) {
    report.add("log.tensorboard", "has nowhere to write: output is not set",
               "set output=runs/NAME, or log.tensorboard=false");
  }
}

void checkpoint_keep(const Config& c, Report& report) {
  const CheckpointConfig& k = c.checkpoint;
  if (k.keep_every == 0 || (k.every > 0 && k.keep_every % k.every == 0)) return;
  report.add(
      "checkpoint.keep_every", "is not a multiple of " + shown(c, "checkpoint.every"),
      k.every > 0 ? "use " + multiples_near(k.keep_every, k.every) : "set checkpoint.every too");
}

constexpr Rule kRules[] = {
    {"learning-rate", Severity::error, learning_rate},
    {"min-lr", Severity::error, min_lr},
    {"warmup", Severity::advice, warmup},
    {"decay", Severity::error, decay},
    {"adam", Severity::error, adam},
    {"loss-scale", Severity::error, loss_scale},
    {"watchdog", Severity::error, watchdog},
    {"eval-data", Severity::error, eval_data},
    {"needs-output", Severity::error, needs_output},
    {"checkpoint-keep", Severity::error, checkpoint_keep},
};

}  // namespace

std::span<const Rule> train_rules() { return kRules; }

}  // namespace stretto
