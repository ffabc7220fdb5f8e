// Requests to stop, from Ctrl-C, a scheduler (SIGTERM, SIGUSR1), a terminal that is gone (SIGHUP,
// unless nohup ignores it), a pipe that nobody reads any more (SIGPIPE: `| head`, or `| tee`, which
// Ctrl-C ends before us; unless a service manager ignores it, whose log may come and go), or a file
// named `stop` in the run directory. The step in work is finished first. A second Ctrl-C ends at
// once.
#pragma once

#include <string>

namespace stretto {

// `note`: a line for the terminal, if stderr is one, at the first Ctrl-C: a step may take minutes,
// and until its end nothing else is seen to happen. It must live as long as the process.
void install_stop_signals(const char* note = nullptr);
// The signal that asked (0: none so far).
int stop_signal();
bool stop_file_exists(const std::string& run_directory);

}  // namespace stretto
