#include "cli/device_option.h"

#include <fmt/format.h>

#include "backend/cuda/cuda_options.h"
#include "base/error.h"
#include "base/log.h"
#include "train/checkpoint.h"

namespace stretto::cli {
namespace {

// It is too small, too old, or there is none.
bool device_refused(const Error& error) {
  return error.code() == ExitCode::out_of_memory || error.code() == ExitCode::bad_config ||
         error.code() == ExitCode::os_error;
}

}  // namespace

void DeviceOption::add_to(Command& verb) {
  verb.add_option("--device", name,
                  "cpu or cuda; auto: where the run was, or the CPU if that cannot be")
      ->capture_default_str();
}

void DeviceOption::check() const {
  if (name == "auto" || name == name_of(Device::cpu) || name == name_of(Device::cuda)) return;
  throw Error(ExitCode::usage, fmt::format("--device {}", name), "use auto, cpu or cuda");
}

void DeviceOption::run(const Checkpoint& checkpoint,
                       const std::function<void(Device)>& work) const {
  check();
  if (name == name_of(Device::cpu)) return work(Device::cpu);
  const bool wanted = name == name_of(Device::cuda);
  if (!wanted &&
      (config_of(checkpoint.manifest()).device == Device::cpu || cuda_device_count() == 0)) {
    return work(Device::cpu);
  }
  try {
    return work(Device::cuda);
  } catch (const Error& error) {
    if (!device_refused(error)) throw;
    if (wanted) throw Error(error.code(), error.what(), "use --device cpu");
    spdlog::warn("{}; going on with the CPU", error.what());
  }
  work(Device::cpu);
}

}  // namespace stretto::cli
