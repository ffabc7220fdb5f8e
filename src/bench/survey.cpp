#include "bench/survey.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/cpu/gemm.h"
#include "backend/cuda/cuda_options.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strict_json.h"
#include "bench/measure.h"

namespace stretto {
namespace {

constexpr int64_t kGpuSize = 8192;  // far beyond where tiles and waves still matter
constexpr int kTries = 5;
constexpr int kProductsPerTry = 10;

void measure_bf16(MachineRates& rates, int cores) {
  const auto backend = make_cpu_backend(cores);
  const double start = clock_seconds();
  for (const int64_t size : {1024, 2048}) {
    // Few cores are busy enough with the smaller one.
    if (clock_seconds() - start > 0.3) break;
    rates.bf16_gemm = std::max(rates.bf16_gemm, measured_matmul_rate(*backend, DType::bf16, size));
  }
}

void measure_gpus(GpuDriver& driver) {
  // The driver counts all cards, CUDA those that this process may use: only where both agree is it
  // known which is which.
  if (cuda_device_count() != static_cast<int>(driver.gpus.size())) return;
  for (size_t i = 0; i < driver.gpus.size(); ++i) {
    try {
      const auto backend = make_cuda_backend(static_cast<int>(i), {});
      driver.gpus[i].bf16_measured = measured_matmul_rate(*backend, DType::bf16, kGpuSize);
    } catch (const Error& error) {
      spdlog::warn("GPU {} was not measured: {}", i, error.what());
    }
  }
}

}  // namespace

double measured_matmul_rate(Backend& backend, DType type, int64_t size) {
  const auto count = static_cast<size_t>(size * size);
  // Random values: products of zeros draw less power, so a GPU would run them at a higher clock.
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
  for (int attempt = -1; attempt < kTries; ++attempt) {  // the first one warms up
    const double begin = clock_seconds();
    for (int i = 0; i < kProductsPerTry; ++i) {
      backend.linear_forward(output, inputs, inputs, {});
    }
    backend.synchronize();
    const double seconds = clock_seconds() - begin;
    const auto n = static_cast<double>(size);
    if (attempt >= 0) best = std::max(best, 2 * n * n * n * kProductsPerTry / seconds);
  }
  return best;
}

std::string read_machine_file(Fs& fs, const std::string& path) {
  RunRecord record;
  record.machine = read_file(fs, path, 1 << 20);
  record.config.threads = 1;  // so that the number of cores is looked at, too
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

MachineInfo survey_machine(bool measure, const std::string& directory) {
  MachineInfo machine = probe_machine(measure, directory);
  if (measure) measure_gpus(machine.gpu);
  if (machine.rates && has_bf16_units()) {
    measure_bf16(*machine.rates, static_cast<int>(std::max<int64_t>(1, machine.cpu.usable)));
  }
  return machine;
}

}  // namespace stretto
