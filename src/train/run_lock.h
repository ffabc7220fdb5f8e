// One job at a time writes into a run directory: two would remove each other's unfinished
// checkpoints and mix their metrics.
#pragma once

#include <string>
#include <vector>

namespace stretto {

// A network file system keeps the locks of a machine that died until their lease ends, so a job
// that is restarted on another machine waits this long. NFS leases are 90 seconds by default.
constexpr double kLeaseSeconds = 120;

class RunLock {
 public:
  // Creates the directory if it is missing and takes the lock, `directory`/lock; an empty name
  // locks nothing. Throws cannot_create, naming the process that holds the lock: at once if that
  // process runs on this machine, where the kernel releases locks however a process ends, otherwise
  // after `patience` seconds. File systems without locks get a warning.
  explicit RunLock(const std::string& directory, double patience = kLeaseSeconds);
  // Releases the lock. If an exception ended the run before it wrote anything, also removes what
  // the constructor created.
  ~RunLock();
  // To be called before writing: if the directory was moved or removed, says so and locks what has
  // its name now, or a new one. Throws as the constructor does.
  void renew();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  void lock(double patience);
  void remove_made() noexcept;

  std::string directory_;
  int fd_ = -1;
  // Created by us: the lock file, then directories, innermost first.
  std::vector<std::string> made_;
  int exceptions_;  // exceptions in flight when the lock was taken
};

}  // namespace stretto
