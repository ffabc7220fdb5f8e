#include "train/run_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <exception>
#include <thread>

#include "base/fs.h"
#include "base/host.h"
#include "base/log.h"

namespace stretto {
namespace {

// Who holds the lock, such as "process 4711 on node3, since ..."; empty if the holder left no note.
std::string holder_of(int fd) {
  std::array<char, 400> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  const std::string holder(text.data(), static_cast<size_t>(std::max<ssize_t>(n, 0)));
  return holder.substr(0, holder.find('\n'));
}

bool elsewhere(const std::string& holder) {
  return !holder.empty() && holder.find(" on " + host_name() + ",") == std::string::npos;
}

// Writes who holds the lock, for people and for elsewhere(). Failing to write it does little harm.
void name_holder(int fd) {
  const std::string text = fmt::format("process {} on {}, since {:%Y-%m-%d %H:%M:%S} UTC\n",
                                       ::getpid(), host_name(), fmt::gmtime(std::time(nullptr)));
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, text.data(), text.size(), 0) < 0) return;
}

// Waits up to `patience` seconds for a holder on another machine. Returns 0, or errno.
int take(int fd, const std::string& path, double patience) {
  using namespace std::chrono;
  const auto end = steady_clock::now() + duration<double>(patience);
  for (bool told = false; ::flock(fd, LOCK_EX | LOCK_NB) != 0;) {
    const int error = errno;
    const std::string holder = holder_of(fd);
    if (error != EWOULDBLOCK || !elsewhere(holder) || steady_clock::now() >= end) return error;
    if (!told) spdlog::info("{}: waiting up to {:.0f} s for {}", path, patience, printable(holder));
    told = true;
    std::this_thread::sleep_for(milliseconds(100));
  }
  return 0;
}

// Whether `path` is still the file that we locked: while we waited for the lock, a run that failed
// before it wrote anything may have removed it.
bool still_there(int fd, const std::string& path) {
  struct stat ours = {}, there = {};
  return ::fstat(fd, &ours) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

}  // namespace

RunLock::RunLock(const std::string& directory, double patience)
    : directory_(directory), exceptions_(std::uncaught_exceptions()) {
  if (directory.empty()) return;
  Fs& fs = posix_fs();
  const std::string path = join_path(directory, "lock");
  if (!fs.info(path)) made_.push_back(path);
  for (std::string at = directory; !fs.info(at); at = parent_dir(at)) made_.push_back(at);
  lock(patience);
}

void RunLock::renew() {
  if (fd_ < 0 || still_there(fd_, join_path(directory_, "lock"))) return;
  spdlog::warn("{} was moved or removed: the run continues in a directory of that name",
               directory_);
  made_.clear();
  ::close(fd_);
  lock(0);
}

void RunLock::lock(double patience) {
  const std::string path = join_path(directory_, "lock");
  int error = 0;
  while (true) {
    make_dirs(posix_fs(), directory_);
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    fd_ = ::open(path.c_str(), flags, 0640);
    if (fd_ < 0) throw fs_error(errno, "create", path, true);
    error = take(fd_, path, patience);
    if (error != 0 || still_there(fd_, path)) break;
    ::close(fd_);
  }
  if (error == 0) {
    name_holder(fd_);
    return;
  }
  std::string holder = printable(holder_of(fd_));
  if (holder.empty()) holder = "another process";
  ::close(fd_);
  fd_ = -1;
  if (error != EWOULDBLOCK) {
    spdlog::warn("{}: {}; nothing keeps a second job out of this directory", path,
                 std::strerror(error));
    return;
  }
  throw Error(ExitCode::cannot_create,
              fmt::format("{} is in use by another run: {}", directory_, holder),
              fmt::format("wait for it, end it (touch {}), or set output= to another directory",
                          join_path(directory_, "stop")));
}

RunLock::~RunLock() {
  if (fd_ < 0) return;
  if (std::uncaught_exceptions() > exceptions_) remove_made();
  ::close(fd_);
}

void RunLock::remove_made() noexcept {
  if (made_.empty()) return;
  try {
    Fs& fs = posix_fs();
    if (fs.list(parent_dir(made_.front())).size() > 1) return;  // it holds more than the lock
    for (const std::string& path : made_) fs.remove(path);
  } catch (const std::exception&) {
    return;  // others use it: leave it
  }
}

}  // namespace stretto
