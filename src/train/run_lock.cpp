#include "train/run_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/fs.h"
#include "base/log.h"

namespace stretto {
namespace {

std::string this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {"this machine"};
  return fmt::format("process {} on {}, since {:%Y-%m-%d %H:%M:%S} UTC", ::getpid(), host.data(),
                     fmt::gmtime(std::time(nullptr)));
}

std::string holder_of(int fd) {
  std::array<char, 400> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  std::string holder(text.data(), static_cast<size_t>(std::max<ssize_t>(n, 0)));
  holder = holder.substr(0, holder.find('\n'));
  return holder.empty() ? "another process" : printable(holder);
}

// For people: what is in the file decides nothing, so a failure to write it does no harm.
void name_holder(int fd) {
  const std::string text = this_process() + "\n";
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, text.data(), text.size(), 0) < 0) return;
}

}  // namespace

RunLock::RunLock(const std::string& directory) {
  if (directory.empty()) return;
  make_dirs(posix_fs(), directory);
  const std::string path = join_path(directory, "lock");
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  fd_ = ::open(path.c_str(), flags, 0640);
  if (fd_ < 0) throw fs_error(errno, "create", path, true);
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
    name_holder(fd_);
    return;
  }
  const int error = errno;
  const std::string holder = holder_of(fd_);
  ::close(fd_);
  fd_ = -1;
  if (error != EWOULDBLOCK) {
    spdlog::warn("{}: {}; nothing keeps a second job out of this directory", path,
                 std::strerror(error));
    return;
  }
  throw Error(ExitCode::cannot_create,
              fmt::format("{} is in use by another run: {}", directory, holder),
              fmt::format("wait for it, end it (touch {}), or set output= to another directory",
                          join_path(directory, "stop")));
}

RunLock::~RunLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace stretto
