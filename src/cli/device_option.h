// The option --device of verbs that use a trained model.
#pragma once

#include <functional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "cli/command.h"
#include "config/config.h"

namespace stretto::cli {

struct DeviceOption {
  std::string name = "auto";

  void add_to(Command& verb);
  // Throws a usage error for an unknown device.
  void check() const;
  // Calls work(device). With auto this is the device of the training run, or the CPU if this
  // machine has no such device or its GPU fails; in the latter case `work` is called twice.
  void run(const Checkpoint& checkpoint, const std::function<void(Device)>& work) const;
};

}  // namespace stretto::cli
