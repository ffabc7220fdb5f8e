// Starts a thread that is needed. If the system cannot start one, that is an error with advice.
#pragma once

#include <fmt/format.h>

#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace stretto {

// `Thread`: std::thread or std::jthread. `what`: "rank 3 of 8".
template <typename Thread, typename Work>
Thread start_thread(const std::string& what, Work&& work) {
  try {
    return Thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    throw Error(ExitCode::os_error, fmt::format("start {}: {}", what, error.what()),
                "use fewer ranks or threads, or allow more (ulimit -u, the pids of a control "
                "group)");
  }
}

}  // namespace stretto
