#include "cli/device_option.h"

#include <fmt/format.h>

#include "base/error.h"

namespace stretto::cli {

void DeviceOption::add_to(Command& verb) {
  verb.add_option("--device", name, "cpu or cuda; auto: the run's, where there is one")
      ->capture_default_str();
}

std::optional<Device> DeviceOption::device() const {
  for (const Device device : {Device::cpu, Device::cuda}) {
    if (name == name_of(device)) return device;
  }
  if (name == "auto") return std::nullopt;
  throw Error(ExitCode::usage, fmt::format("--device {}", name), "use auto, cpu or cuda");
}

}  // namespace stretto::cli
