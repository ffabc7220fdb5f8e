// How all transports end a process.
#pragma once

#include <string>

#include "comm/monitor.h"

namespace stretto {

// Prints `message`, unless another rank of this machine has reported first: then gives that rank a
// second to end the job. A timer is started before: the process ends with `exit_code` within three
// seconds even if something blocks (a full pipe, a lock that a hung thread holds, MPI itself).
void report_before_exit(const StatusBoard& board, int exit_code, const std::string& message);

}  // namespace stretto
