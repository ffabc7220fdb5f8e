#include "bench/survey.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/cpu/gemm.h"
#include "backend/cuda/cuda_options.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strict_json.h"
#include "bench/measure.h"

namespace stretto {
namespace {

constexpr int64_t kGpuSize = 8192;  // so large that partial tiles and waves do not matter
constexpr int kTries = 5;
constexpr int kProductsOnGpu = 10, kProductsOnCpu = 4;  // in a try

// Measured with the kernels that training steps use.
double cpu_matmul_rate(Backend& backend, DType type) {
  double best = 0;
  const double start = clock_seconds();
  for (const int64_t size : {512, 1024, 2048}) {
    // A small size is enough for few or busy cores.
    if (clock_seconds() - start > 0.3) break;
    best = std::max(best, measured_matmul_rate(backend, type, size, kProductsOnCpu));
  }
  return best;
}

void measure_products(MachineRates& rates, int cores) {
  const auto backend = make_cpu_backend(cores);
  const CoreWatch watch(allowed_cores());
  rates.gemm = cpu_matmul_rate(*backend, DType::f32);
  if (has_bf16_units()) rates.bf16_gemm = cpu_matmul_rate(*backend, DType::bf16);
  settle_fma_peak(rates, [&](double seconds) { return measure_fma(cores, seconds); });
  const CoreUse use = watch.use(watch.own_seconds(), cores);
  if (use.lost() > rates.cores.lost()) rates.cores = use;
}

void measure_gpus(GpuDriver& driver) {
  // The driver counts all cards, CUDA only those that this process may use. Which one is which is
  // known only if both numbers agree.
  if (cuda_device_count() != static_cast<int>(driver.gpus.size())) return;
  for (size_t i = 0; i < driver.gpus.size(); ++i) {
    try {
      const auto backend = make_cuda_backend(static_cast<int>(i), {});
      driver.gpus[i].bf16_measured =
          measured_matmul_rate(*backend, DType::bf16, kGpuSize, kProductsOnGpu);
    } catch (const Error& error) {
      spdlog::warn("GPU {} was not measured: {}", i, error.what());
    }
  }
}

}  // namespace

double measured_matmul_rate(Backend& backend, DType type, int64_t size, int products) {
  const auto count = static_cast<size_t>(size * size);
  // Random values: a product of zeros draws less power, so a GPU would run it at a higher clock.
  std::vector<float> values(count);
  const CounterRng rng(1, stream_of("matmul"));
  for (size_t i = 0; i < count; ++i) values[i] = 2 * rng.uniform(i) - 1;
  Buffer random = backend.allocate(count * sizeof(float), "matmul values");
  const Tensor source(random.data(), DType::f32, {size, size});
  backend.copy_from_host(source, values.data());
  Buffer memory[2] = {backend.allocate(count * dtype_size(type), "matmul inputs"),
                      backend.allocate(count * dtype_size(type), "matmul output")};
  const Tensor inputs(memory[0].data(), type, {size, size});
  const Tensor output(memory[1].data(), type, {size, size});
  backend.convert(inputs, source);
  double best = 0;
  for (int attempt = -1; attempt < kTries; ++attempt) {  // attempt -1 warms up
    const double begin = clock_seconds();
    for (int i = 0; i < products; ++i) {
      backend.linear_forward(output, inputs, inputs, {});
    }
    backend.synchronize();
    const double seconds = clock_seconds() - begin;
    const auto n = static_cast<double>(size);
    if (attempt >= 0) best = std::max(best, 2 * n * n * n * products / seconds);
  }
  return best;
}

std::string read_machine_file(Fs& fs, const std::string& path) {
  RunRecord record;
  record.machine = read_file(fs, path, 1 << 20);
  record.config.threads = 1;  // so that the number of cores is checked, too
  const std::string name = printable(path);
  try {
    parse_json(record.machine, name);
    for (const Device device : {Device::cpu, Device::cuda}) {
      record.config.device = device;
      describe_device(record, name);
    }
  } catch (const Error& error) {
    throw Error(error.code(), error.what(),
                "write it with `stretto doctor --json`; a sweep without it measures again");
  }
  return record.machine;
}

void warn_if_disturbed(const MachineInfo& machine, const std::string& fix) {
  if (!machine.rates || !machine.rates->cores.disturbed()) return;
  spdlog::warn("{} while this machine was measured: predictions may be too slow; {}",
               describe(machine.rates->cores), fix);
}

MachineInfo survey_machine(bool measure, const std::string& directory) {
  MachineInfo machine = probe_machine(measure, directory);
  if (measure) measure_gpus(machine.gpu);
  if (machine.rates) {
    measure_products(*machine.rates, static_cast<int>(std::max<int64_t>(1, machine.cpu.usable)));
  }
  return machine;
}

void release_gpus(int own) {
  for (int device = 0; device < cuda_device_count(); ++device) {
    if (device != own) release_cuda_device(device);
  }
}

}  // namespace stretto
