#include "train/gpu_clock.h"

#include <algorithm>
#include <vector>

#include "account/peaks.h"
#include "backend/cuda/cuda_options.h"
#include "base/host.h"
#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "train/rank_backend.h"

namespace stretto {

void require_fixed_clock(const Config& config) {
  if (config.gpu_clock != kAuto) return;
  throw Error(ExitCode::bad_config,
              "gpu_clock=auto would change the clock between steps that are compared",
              "give it in MHz: `stretto train` with gpu_clock=auto says which it has found");
}

void require_own_clock(const std::string& gpu_name) {
  if (!is_gpu_slice(gpu_name)) return;
  throw Error(ExitCode::bad_config,
              fmt::format("gpu_clock cannot be set on {}: a slice has the clock of the whole card, "
                          "which others use, too",
                          gpu_name),
              "set gpu_clock=0");
}

bool first_of_its_gpu(Comm& world, const std::string& bus_id) {
  const uint64_t mine = stream_of(host_name() + " " + bus_id);
  std::vector<uint64_t> all(static_cast<size_t>(world.size()));
  // Sent as pairs of 32-bit numbers, because Comm has no 64-bit integer type.
  world.all_gather(Tensor(all.data(), DType::i32, {world.size(), 2}),
                   ConstTensor(&mine, DType::i32, {2}));
  return std::find(all.begin(), all.end(), mine) - all.begin() == world.rank();
}

GpuClock::GpuClock(const Config& config, Comm& world) : world_(world) {
  if (config.device != Device::cuda || config.gpu_clock == 0) return;
  require_own_clock(cuda_device_name(gpu_of(world)));
  if (config.gpu_clock == kAuto) governor_.emplace();
  const std::string gpu = cuda_bus_id(gpu_of(world));
  if (!first_of_its_gpu(world, gpu)) return;
  limit_ = std::make_unique<ClockLimit>(gpu);
  if (!governor_) limit_->set(config.gpu_clock);
}

void GpuClock::after(const StepRecord& record) {
  if (!governor_ || governor_->done()) return;
  // All ranks see the same numbers, so all of them change their clocks after the same step.
  double agreed[] = {record.times.total, power_capped(record.gpu.throttle_reasons) ? 1.0 : 0.0,
                     refused_ ? 1.0 : 0.0};
  world_.all_reduce(Tensor(agreed, DType::f64, {3}), ReduceOp::max);
  if (agreed[2] != 0) {
    governor_.reset();
    limit_.reset();
    return;
  }
  const auto limit = governor_->observe(
      {agreed[0], agreed[1] != 0, record.gpu.sm_clock_mhz_mean, record.gpu.samples});
  if (limit) set(*limit);
  if (!governor_->done() || world_.rank() != 0) return;
  if (governor_->before() == 0) {
    spdlog::info("gpu_clock=auto: no power cap slowed the GPU down; its clock is left alone");
    return;
  }
  spdlog::info("gpu_clock=auto: {} a step without a ceiling, {} with one: {}",
               format_seconds(governor_->before()), format_seconds(governor_->after()),
               governor_->limit() > 0
                   ? fmt::format("at most {} MHz from now on", governor_->limit())
                   : "it is lifted again");
}

void GpuClock::set(int64_t mhz) {
  if (!limit_) return;
  try {
    limit_->set(mhz);
  } catch (const Error& e) {
    spdlog::warn("gpu_clock=auto: {}; {}", e.what(),
                 mhz > 0 ? "the clock is left alone" : "this is tried again when the run ends");
    refused_ = true;
  }
}

}  // namespace stretto
