// Requests to stop a run: Ctrl-C, a scheduler's SIGTERM or SIGUSR1, a closed terminal (SIGHUP,
// unless nohup ignores it), a pipe without a reader (SIGPIPE, unless a service manager ignores it),
// or a file named `stop` in the run directory. SIGPIPE counts because `| head` has ended, or `|
// tee`, which Ctrl-C ends before us. The current step is finished first. A second Ctrl-C ends the
// program at once.
#pragma once

#include <string>

namespace stretto {

// `note`: printed at the first Ctrl-C if stderr is a terminal, because a step may take minutes and
// nothing else would be seen to happen until its end. It must live as long as the process.
void install_stop_signals(const char* note = nullptr);
// The signal that asked for a stop; 0: none so far.
int stop_signal();
bool stop_file_exists(const std::string& run_directory);

}  // namespace stretto
