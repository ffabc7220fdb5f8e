#include "train/batch_plan.h"

#include <algorithm>

#include "base/ceil_div.h"

namespace stretto {

int64_t rounds(int64_t global_batch, int64_t micro_batch, int64_t dp) {
  const int64_t per_round = micro_batch * dp;
  return ceil_div(global_batch, per_round);
}

std::vector<Share> batch_shares(int64_t global_batch, int64_t micro_batch, int64_t dp,
                                int64_t rank) {
  std::vector<Share> shares;
  for (int64_t first = 0; first < global_batch; first += micro_batch * dp) {
    const int64_t samples = std::min(micro_batch * dp, global_batch - first);
    const int64_t each = samples / dp,
                  extra = samples % dp;  // the first `extra` ranks take one more
    shares.push_back({first + rank * each + std::min(rank, extra), each + (rank < extra ? 1 : 0)});
  }
  return shares;
}

int64_t ramped_batch(const Config& config, int64_t consumed_samples) {
  const RampUp& ramp = config.train.ramp_up;
  if (ramp.start <= 0 || ramp.increment <= 0 || consumed_samples >= ramp.samples) {
    return config.global_batch;
  }
  const int64_t steps = std::max<int64_t>(1, (config.global_batch - ramp.start) / ramp.increment);
  const int64_t done = consumed_samples * steps / ramp.samples;
  return std::min(config.global_batch, ramp.start + done * ramp.increment);
}

}  // namespace stretto
