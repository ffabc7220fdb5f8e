#include "train/rank_backend.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "account/peaks.h"
#include "backend/cuda/cuda_options.h"
#include "comm/launch.h"
#include "train/cores.h"
#include "train/launch.h"

namespace stretto {

int gpu_of(const Comm& world) {
  const LaunchInfo launch = detect_launch();
  const int here = launch.wants_mpi() ? launch.local_rank : world.rank();
  return here % std::max(1, cuda_device_count());
}

double promised_peak(const Config& config, const Comm& world) {
  if (config.device == Device::cpu || ranks_here(config) > cuda_device_count()) return 0;
  return device_peak(cuda_device_name(gpu_of(world)), peak_format(config.precision, config.tf32))
      .value_or(0);
}

std::unique_ptr<Backend> make_rank_backend(const Config& config, const Comm& world,
                                           const TunableOptions& tunables) {
  if (config.device == Device::cpu) {
    return make_cpu_backend(threads_per_rank(config, ranks_here(config)));
  }
  CudaOptions options;
  options.tf32 = config.tf32;
  options.repeatable = config.repeatable;
  options.time_operators = config.trace > 0;
  const char* graphs = std::getenv("STRETTO_CUDA_GRAPHS");
  options.graphs = !tunables.collect && (graphs == nullptr || std::string_view(graphs) != "0");
  options.collect = tunables.collect;
  options.settle = tunables.settle;
  if (const char* attention = std::getenv("STRETTO_CUDA_ATTENTION")) options.attention = attention;
  return make_cuda_backend(gpu_of(world), options);
}

}  // namespace stretto
