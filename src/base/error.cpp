#include "base/error.h"

#include <cstring>

namespace stretto {

const char* exit_code_meaning(ExitCode code) {
  switch (code) {
    case ExitCode::ok:
      return "done";
    case ExitCode::regression:
      return "the answer is no";
    case ExitCode::usage:
      return "wrong command line";
    case ExitCode::bad_data:
      return "corrupt or malformed input";
    case ExitCode::no_input:
      return "input missing";
    case ExitCode::internal:
      return "internal error";
    case ExitCode::os_error:
      return "operating system error";
    case ExitCode::cannot_create:
      return "output cannot be created";
    case ExitCode::io_error:
      return "input/output error";
    case ExitCode::resumable:
      return "stopped early, resumable";
    case ExitCode::no_permission:
      return "permission denied";
    case ExitCode::bad_config:
      return "bad configuration";
    case ExitCode::diverged:
      return "training diverged";
    case ExitCode::out_of_memory:
      return "out of memory";
    case ExitCode::peer_lost:
      return "a peer was lost, resumable";
  }
  return "unknown";
}

Error::Error(ExitCode code, std::string what, std::string hint)
    : std::runtime_error(std::move(what)), code_(code), hint_(std::move(hint)) {}

void contract_broken(const char* condition, const char* file, int line, const std::string& detail) {
  const char* name = std::strstr(file, "src/");
  std::string text = fmt::format("{}:{}: check failed: {}", name ? name : file, line, condition);
  if (!detail.empty()) text += ": " + detail;
  throw Error(ExitCode::internal, text, "this is a bug in Stretto; please report the command");
}

}  // namespace stretto
