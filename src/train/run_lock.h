// One job at a time writes into a run directory: two would remove each other's unfinished
// checkpoints and mix their metrics.
#pragma once

#include <string>

namespace stretto {

class RunLock {
 public:
  // Takes the lock, `directory`/lock, and makes the directory where it is missing; an empty name
  // locks nothing. Throws cannot_create naming the process that holds it. The kernel lets go of it
  // when the process ends, however it ends. File systems without locks get a warning.
  explicit RunLock(const std::string& directory);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace stretto
