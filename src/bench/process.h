// One child process: argv (never a shell), output into a file, a time limit.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/defaults.h"

namespace stretto {

struct ProcessResult {
  int exit_code = 0;       // when it exited
  int signal = 0;          // when a signal ended it
  bool timed_out = false;  // we ended it
  bool stopped = false;    // we were asked to stop and ended it
  double seconds = 0;
};

struct ProcessOptions {
  double timeout = kPointTimeout;       // seconds
  std::string log;                      // stdout and stderr; replaced
  std::function<void(double)> waiting;  // called a few times a second with the seconds so far
  std::function<bool()> stop;           // true: end the child now
  // Seconds between asking (SIGTERM) and killing: a launcher needs them to end its own children.
  double grace = 0;
};

// Starts argv[0] in a process group of its own that dies with us; stdout and stderr go to `log`
// (empty: nowhere), stdin is empty. `prepare` runs in the child just before the program: only calls
// that are safe after fork. Throws Error (os_error).
pid_t start_process(const std::vector<std::string>& argv, const std::string& log,
                    const std::function<void()>& prepare = {});

// What waitpid says of the end of a child, none while it goes on and `wait` is false. Throws Error
// (os_error) where nobody can tell: the system forgets children at once while SIGCHLD is ignored,
// and a status of 0 would read as success.
std::optional<int> end_of_process(pid_t child, bool wait);

// Starts argv[0] and waits. The child gets its own process group, so that whatever it starts ends
// with it, and dies with us. Files that are open without close-on-exec stay open in it: a lock that
// we hold is held until the child is gone, too. Throws Error (os_error, cannot_create).
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options);

// The path of the program that is running.
std::string own_program();

// The last lines of a file, at most `bytes`, without escape sequences; empty when there is none.
std::string file_tail(const std::string& path, size_t bytes);

}  // namespace stretto
