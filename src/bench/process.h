// One child process: argv (never a shell), output to a file, a time limit.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/defaults.h"

namespace stretto {

struct ProcessResult {
  int exit_code = 0;       // if it exited
  int signal = 0;          // if a signal ended it
  bool timed_out = false;  // we ended it
  bool stopped = false;    // we were asked to stop and ended it
  double seconds = 0;
};

struct ProcessOptions {
  double timeout = kPointTimeout;  // seconds
  std::string log;                 // stdout and stderr; replaced
  // Called a few times a second with the seconds since the start.
  std::function<void(double)> waiting;
  std::function<bool()> stop;  // true: end the child now
  // Seconds between asking it to end (SIGTERM) and killing it: launchers need them to end their own
  // children.
  double grace = 0;
};

// Starts argv[0] in a process group of its own, which dies with us. stdout and stderr go to `log`
// (empty: nowhere), stdin is empty. `prepare` runs in the child just before the program, so it may
// only make calls that are safe after fork. Throws Error (os_error).
pid_t start_process(const std::vector<std::string>& argv, const std::string& log,
                    const std::function<void()>& prepare = {});

// The status with which a child has ended, as waitpid tells it; none while it still runs and `wait`
// is false. Throws Error (os_error) if the status is lost: while SIGCHLD is ignored, the system
// forgets children at once, and a status of 0 would look like success.
std::optional<int> end_of_process(pid_t child, bool wait);

// Starts argv[0] and waits. The child has a process group of its own, so that everything it starts
// ends with it, and it dies with us. Files that are open without close-on-exec stay open in it: a
// lock that we hold is held until the child has ended, too. Throws Error (os_error, cannot_create).
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options);

// The path of the program that is running.
std::string own_program();

// The last lines of a file, at most `bytes`, without escape sequences; empty when there is none.
std::string file_tail(const std::string& path, size_t bytes);

}  // namespace stretto
