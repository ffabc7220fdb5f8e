// --device of verbs that take a trained model.
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
  // Throws usage.
  void check() const;
  // Calls work(device). With auto that is where the model was trained, and the CPU where this
  // machine has no such device, or its GPU refuses: `work` is then called twice.
  void run(const Checkpoint& checkpoint, const std::function<void(Device)>& work) const;
};

}  // namespace stretto::cli
