// One job at a time writes into a run directory: two would remove each other's unfinished
// checkpoints and mix their metrics.
#pragma once

#include <string>
#include <vector>

namespace stretto {

// A network file system keeps the locks of a machine that died until its lease ends; a job that
// starts again elsewhere waits for that. NFS leases are 90 seconds unless somebody changed them.
constexpr double kLeaseSeconds = 120;

class RunLock {
 public:
  // Takes the lock, `directory`/lock, and makes the directory where it is missing; an empty name
  // locks nothing. Throws cannot_create naming the process that holds it: at once if that is on
  // this machine, where the kernel lets go of it however the process ends, otherwise after
  // `patience` seconds. File systems without locks get a warning.
  explicit RunLock(const std::string& directory, double patience = kLeaseSeconds);
  // When an exception ends the run before it has written anything, what the lock made goes, too.
  ~RunLock();
  // Where the lock's name is not ours any more, for the directory was moved or removed: takes that
  // of what has its name now, or of a new one, and says so. Throws as the constructor does.
  void renew();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  void lock(double patience);
  void remove_made() noexcept;

  std::string directory_;
  int fd_ = -1;
  std::vector<std::string> made_;  // the lock file and directories, innermost first
  int exceptions_;                 // on their way when the lock was taken
};

}  // namespace stretto
