#include "train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace stretto {

double learning_rate(const TrainConfig& train, int64_t step) {
  const auto s = static_cast<double>(step);
  if (step <= train.warmup) return train.lr * s / static_cast<double>(train.warmup);
  if (train.schedule == LrSchedule::constant) return train.lr;

  const auto end = static_cast<double>(train.steps);
  const auto length =
      train.decay > 0 ? static_cast<double>(train.decay) : end - static_cast<double>(train.warmup);
  const double begin =
      train.schedule == LrSchedule::wsd ? end - length : static_cast<double>(train.warmup);
  const double done = length > 0 ? std::clamp((s - begin) / length, 0.0, 1.0) : 1.0;
  const double share = train.schedule == LrSchedule::cosine
                           ? 0.5 * (1 + std::cos(std::numbers::pi * done))
                           : 1 - done;
  return train.min_lr + (train.lr - train.min_lr) * share;
}

}  // namespace stretto
