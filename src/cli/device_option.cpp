#include "cli/device_option.h"

#include <fmt/format.h>

#include "backend/cuda/cuda_options.h"
#include "base/error.h"
#include "base/log.h"
#include "train/checkpoint.h"

namespace stretto::cli {
namespace {

// Errors caused by the device itself (too small, too old, busy, missing), not by files or by the
// request.
bool of_the_device(const Error& error) {
  switch (error.code()) {
    case ExitCode::out_of_memory:
    case ExitCode::bad_config:
    case ExitCode::os_error:
    case ExitCode::peer_lost:
    case ExitCode::internal:
      return true;
    default:
      return false;
  }
}

}  // namespace

void DeviceOption::add_to(Command& verb) {
  verb.add_option("--device", name,
                  "cpu or cuda; auto: where the run was, or the CPU if that cannot be")
      ->offers({"auto", "cpu", "cuda"})
      ->capture_default_str();
}

void DeviceOption::check() const {
  if (name == "auto" || name == name_of(Device::cpu) || name == name_of(Device::cuda)) return;
  throw Error(ExitCode::usage, fmt::format("--device {}", name), "use auto, cpu or cuda");
}

void DeviceOption::run(const Checkpoint& checkpoint,
                       const std::function<void(Device)>& work) const {
  check();
  const bool wanted = name == name_of(Device::cuda);
  const bool trained = config_of(checkpoint.manifest()).device == Device::cuda;
  if (!wanted && (name != "auto" || !trained)) return work(Device::cpu);
  if (!wanted && cuda_device_count() == 0) {
    spdlog::info("the model was trained on a GPU; there is none here, so it runs on the CPU");
    return work(Device::cpu);
  }
  try {
    return work(Device::cuda);
  } catch (const Error& error) {
    if (!of_the_device(error)) throw;
    if (wanted) {
      const std::string& hint = error.hint();
      throw Error(error.code(), error.what(),
                  fmt::format("{}{}use --device cpu", hint, hint.empty() ? "" : "; or "));
    }
    spdlog::warn("{}; going on with the CPU", error.what());
  }
  work(Device::cpu);
}

}  // namespace stretto::cli
