#include "comm/abort.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "base/log.h"

namespace stretto {

void report_before_exit(const StatusBoard& board, int exit_code, const std::string& message) {
  try {
    std::thread([exit_code] {
      std::this_thread::sleep_for(std::chrono::seconds(3));
      std::_Exit(exit_code);
    }).detach();
  } catch (const std::system_error&) {
    // No thread could be started, so the caller must end the process itself.
  }
  if (!board.claim_report()) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return;
  }
  fmt::print(stderr, "stretto: {}\n", printable_lines(message));
  std::fflush(nullptr);
}

}  // namespace stretto
