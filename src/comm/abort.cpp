#include "comm/abort.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/log.h"

namespace stretto {

void report_before_exit(const StatusBoard& board, int exit_code, const std::string& message) {
  std::thread([exit_code] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    std::_Exit(exit_code);
  }).detach();
  if (!board.claim_report()) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return;
  }
  fmt::print(stderr, "stretto: {}\n", printable_lines(message));
  std::fflush(nullptr);
}

}  // namespace stretto
