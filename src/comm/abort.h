// How transports end a process: shared by all of them.
#pragma once

#include <string>

#include "comm/monitor.h"

namespace stretto {

// Prints `message` if no other rank of this machine has reported before; else gives that rank a
// second to end the job. Arms a timer first: whatever blocks later (a full pipe, a lock that a hung
// thread holds, MPI itself), the process ends with `exit_code` within three seconds.
void report_before_exit(const StatusBoard& board, int exit_code, const std::string& message);

}  // namespace stretto
