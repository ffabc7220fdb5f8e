// Errors and exit codes. An Error says what was attempted, with which value, and what to do.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace stretto {

// BSD sysexits if one fits, otherwise numbers above 78, so that schedulers can act on them: requeue
// after 75 and 81, never after 64 to 66, 78 and 79.
enum class ExitCode : int {
  ok = 0,
  regression = 1,      // the answer is "no": `compare`, `verify`, and others that README lists
  usage = 64,          // wrong command line
  bad_data = 65,       // corrupt or malformed input
  no_input = 66,       // input missing
  internal = 70,       // a bug of ours
  os_error = 71,       // the system refused
  cannot_create = 73,  // output cannot be created
  io_error = 74,       // disk full, read or write failed
  resumable = 75,      // stopped early, requeue me
  no_permission = 77,
  bad_config = 78,
  diverged = 79,  // NaN limit
  out_of_memory = 80,
  peer_lost = 81,  // a rank died or hangs; resumable
};

class Error : public std::runtime_error {
 public:
  // `what` says what was attempted and the values; `hint` says what to do about it.
  Error(ExitCode code, std::string what, std::string hint = "");

  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

// A contract of our own was broken. The message names the condition and the place.
[[noreturn]] void contract_broken(const char* condition, const char* file, int line,
                                  const std::string& detail);

}  // namespace stretto

// Checks a contract between our own parts, in every build. For mistakes of users throw Error
// directly.
#define STRETTO_CHECK(condition, ...)                                                            \
  do {                                                                                           \
    if (!(condition)) [[unlikely]] {                                                             \
      ::stretto::contract_broken(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                            \
  } while (false)
