// --device of verbs that take a trained model.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "config/config.h"

namespace stretto::cli {

struct DeviceOption {
  std::string name = "auto";

  void add_to(Command& verb);
  // None: where the model was trained, if this machine has such a device. Throws usage.
  std::optional<Device> device() const;
};

}  // namespace stretto::cli
