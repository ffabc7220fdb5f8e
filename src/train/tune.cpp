#include "train/tune.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cuda/cuda_options.h"
#include "base/error.h"
#include "base/numbers.h"
#include "train/rank_backend.h"
#include "train/step_tuner.h"
#include "train/trainer.h"

namespace stretto {
namespace {

constexpr int kWarmUp = 3;     // steps until every shape has been met
constexpr double kHeatUp = 5;  // seconds: a cold card is a few percent faster

class Tuning {
 public:
  Tuning(const Config& config, Comm& world, const TuneOptions& options)
      : options_(options),
        trainer_(endless(config), world, {.collect = true, .settle = options.settle}) {
    trainer_.initialise();
    double seconds = 0;
    for (int i = 0; i < kWarmUp; ++i) seconds = trainer_.step().times.total;
    result_.choices = trainer_.backend().tunables();
    if (result_.choices.empty()) {
      throw Error(ExitCode::bad_config,
                  fmt::format("device={} has nothing to tune", trainer_.backend().name()),
                  "tuning chooses algorithms of matrix products on a GPU: device=cuda");
    }
    for (double spent = 0; spent < kHeatUp; spent += seconds) seconds = trainer_.step().times.total;
    held_ = std::max<int64_t>(1, std::lround(options.hold / seconds));
  }

  TuneResult run() {
    search();
    compare();
    keep_if_faster(result_, options_.keep, [this] {
      trainer_.backend().set_tunables(result_.chosen);
      trainer_.backend().remember_tunables();
    });
    return result_;
  }

 private:
  static Config endless(Config config) {
    config.train.steps = std::numeric_limits<int32_t>::max();
    config.train.ramp_up = {};  // a fixed batch, so that steps can be compared
    return config;
  }

  double timed(std::span<const int> options) {
    trainer_.backend().set_tunables(options);
    double seconds = 0;
    for (int64_t i = 0; i < held_; ++i) seconds += trainer_.step().times.total;
    if (options_.progress) options_.progress(++done_);
    return seconds / static_cast<double>(held_);
  }

  void search() {
    std::vector<int> counts;
    for (const Tunable& choice : result_.choices) counts.push_back(choice.options);
    StepTuner tuner(counts, trainer_.config().seed);
    const int rounds = tuner.rounds();
    for (int round = 0; round < rounds; ++round) {
      const int64_t from = options_.draws * round / rounds;
      const int64_t to = options_.draws * (round + 1) / rounds;
      for (int64_t i = from; i < to; ++i) {
        const std::vector<int> drawn = tuner.draw();
        const double seconds = timed(drawn);
        tuner.observe(drawn, seconds);
        result_.draws.push_back({drawn, seconds});
      }
      tuner.halve();
    }
    result_.chosen = tuner.best();
    result_.effects = tuner.effects();
  }

  void compare() {
    std::vector<int> old;
    for (const Tunable& choice : result_.choices) old.push_back(choice.now);
    std::vector<double> before, after;
    for (int64_t i = 0; i < options_.turns; ++i) {
      before.push_back(timed(old));
      after.push_back(timed(result_.chosen));
    }
    compare_turns(result_, before, after);
  }

  TuneOptions options_;
  Trainer trainer_;
  TuneResult result_;
  int64_t held_ = 1;  // steps per draw
  int64_t done_ = 0;
};

}  // namespace

void compare_turns(TuneResult& result, std::span<const double> before,
                   std::span<const double> after) {
  result.before = median(before);
  result.after = median(after);
  double squares = 0;
  const double middle = result.before / result.after;
  for (size_t i = 0; i < before.size(); ++i) {
    const double ratio = before[i] / after[i];
    squares += (ratio - middle) * (ratio - middle);
  }
  result.uncertainty = std::sqrt(squares) / static_cast<double>(before.size());
}

void keep_if_faster(TuneResult& result, bool wanted, const std::function<void()>& remember) {
  if (!wanted) {
    result.why_not = "later runs go on with what they have, as was asked for";
    return;
  }
  if (result.before <= result.after * (1 + result.uncertainty)) {
    result.why_not = "it is not faster by more than the standard error";
    return;
  }
  try {
    remember();
    result.kept = true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::io_error) throw;
    result.why_not = error.what();
    result.not_written = error;
  }
}

TuneResult tune_steps(const Config& config, Comm& world, const TuneOptions& options) {
  if (options.keep && config.device == Device::cuda) require_tune_cache(gpu_of(world));
  return Tuning(config, world, options).run();
}

}  // namespace stretto
