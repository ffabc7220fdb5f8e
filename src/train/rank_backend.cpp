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

bool gpus_per_task() {
  const char* per_task = std::getenv("SLURM_GPUS_PER_TASK");
  const bool slurm = detect_launch().launcher == Launcher::slurm;
  return slurm && per_task != nullptr && *per_task != '\0';
}

int gpu_of(const Comm& world) {
  const LaunchInfo launch = detect_launch();
  const int here = launch.wants_mpi() ? launch.local_rank : world.rank();
  return here % std::max(1, cuda_device_count());
}

double promised_peak(const Config& config, const Comm& world) {
  if (config.device == Device::cpu) return 0;  // asking for GPUs would start their driver
  const bool shared = !gpus_per_task() && ranks_here(config) > cuda_device_count();
  if (shared) return 0;
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
  options.one_of_several =
      !detect_launch().wants_mpi() && config.world_size() > 1 && cuda_device_count() > 1;
  options.collect = tunables.collect;
  options.settle = tunables.settle;
  if (const char* attention = std::getenv("STRETTO_CUDA_ATTENTION")) options.attention = attention;
  return make_cuda_backend(gpu_of(world), options);
}

}  // namespace stretto
