// Fs on the operating system.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/fs.h"

namespace stretto {
namespace {

// Repeats a system call that a signal has interrupted.
template <typename Call>
auto until_uninterrupted(Call call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

class PosixFile final : public File {
 public:
  PosixFile(std::string path, int fd, int64_t appended = 0)
      : File(std::move(path), appended), fd_(fd) {}
  ~PosixFile() override {
    if (fd_ >= 0) ::close(fd_);
  }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  int release() { return std::exchange(fd_, -1); }

  size_t read_at(void* out, size_t bytes, int64_t offset) override {
    size_t done = 0;
    while (done < bytes) {
      char* to = static_cast<char*>(out) + done;
      const int64_t at = offset + static_cast<int64_t>(done);
      const size_t next = next_transfer(to, bytes - done, at);
      const ssize_t n = until_uninterrupted([&] { return ::pread(fd_, to, next, at); });
      if (n < 0 && gave_up_direct()) continue;
      if (n < 0) throw fs_error(errno, "read", path());
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

  void write_at(const void* data, size_t bytes, int64_t offset) override {
    size_t done = 0;
    while (done < bytes) {
      const char* from = static_cast<const char*>(data) + done;
      const int64_t at = offset + static_cast<int64_t>(done);
      const size_t next = next_transfer(from, bytes - done, at);
      const ssize_t n = until_uninterrupted([&] { return ::pwrite(fd_, from, next, at); });
      if (n < 0 && gave_up_direct()) continue;
      if (n < 0) throw fs_error(errno, "write", path());
      if (n == 0) throw fs_error(EIO, "write", path());
      done += static_cast<size_t>(n);
    }
  }

  int64_t size() override {
    struct stat status {};
    if (::fstat(fd_, &status) != 0) throw fs_error(errno, "inspect", path());
    return status.st_size;
  }

  void preallocate(int64_t bytes) override {
    if (bytes <= 0) return;
    const int failed = until_uninterrupted([&] {
      errno = ::posix_fallocate(fd_, 0, bytes);
      return errno == 0 ? 0 : -1;
    });
    // Some file systems do not support this; they report a full disk only when written to.
    if (failed != 0 && errno != EOPNOTSUPP && errno != EINVAL) {
      throw fs_error(errno, "reserve space for", path());
    }
  }

  void sync() override {
    if (until_uninterrupted([&] { return ::fsync(fd_); }) != 0)
      throw fs_error(errno, "sync", path());
  }

  void close() override {
    const int fd = fd_;
    fd_ = -1;
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) throw fs_error(errno, "close", path());
  }

  void bypass_cache() override { may_be_direct_ = true; }

  bool hold() override { return ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }
  bool held() override { return ::flock(fd_, LOCK_SH | LOCK_NB) != 0; }

 private:
  // How many of `bytes` to move next, having set the file to the right mode: first up to the next
  // block, then whole blocks, then the rest.
  size_t next_transfer(const void* memory, size_t bytes, int64_t offset) {
    if (!may_be_direct_) return bytes;
    const auto into_block = static_cast<size_t>(offset % kDirectBlock);
    const size_t before = into_block == 0 ? 0 : static_cast<size_t>(kDirectBlock) - into_block;
    const bool congruent = reinterpret_cast<uintptr_t>(memory) % kDirectBlock == into_block;
    if (!congruent || bytes < before + static_cast<size_t>(kDirectBlock)) return buffered(bytes);
    if (before > 0) return buffered(before);
    set_direct(true);
    return bytes - bytes % static_cast<size_t>(kDirectBlock);
  }
  size_t buffered(size_t bytes) {
    set_direct(false);
    return bytes;
  }
  void set_direct(bool on) {
    if (on == direct_) return;
    const int flags = ::fcntl(fd_, F_GETFL);
    const int wanted = on ? flags | O_DIRECT : flags & ~O_DIRECT;
    direct_ = flags >= 0 && ::fcntl(fd_, F_SETFL, wanted) == 0 && on;
    may_be_direct_ = may_be_direct_ && direct_ == on;
  }
  // After an error: whether this file system has no direct transfers, and has said so only now.
  bool gave_up_direct() {
    if (errno != EINVAL || !direct_) return false;
    set_direct(false);
    may_be_direct_ = false;
    return true;
  }

  int fd_;
  bool may_be_direct_ = false;
  bool direct_ = false;  // current mode of the descriptor
};

Error shrunk(const std::string& path, int64_t size) {
  return {ExitCode::bad_data,
          fmt::format("{} became shorter than {} bytes while it was being read", path, size),
          "do not change data files during a run; restore the file and repeat the command"};
}

class PosixMapping final : public MappedFile {
 public:
  PosixMapping(std::string path, void* data, const struct stat& status)
      : MappedFile(std::move(path), static_cast<const char*>(data), status.st_size),
        data_(data),
        device_(status.st_dev),
        inode_(status.st_ino) {}
  ~PosixMapping() override {
    if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(size()));
  }

  // Checks by name instead of keeping a descriptor open, because a checkpoint may have more files
  // than a process may have descriptors. If the name is gone or belongs to another file, the
  // mapping is unaffected.
  void require_whole() const override {
    struct stat status {};
    if (::stat(path().c_str(), &status) != 0) return;
    const bool same = status.st_dev == device_ && status.st_ino == inode_;
    if (same && status.st_size < size()) throw shrunk(path(), size());
  }

 private:
  void* data_;
  dev_t device_;
  ino_t inode_;
};

FileKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::regular;
  return S_ISDIR(mode) ? FileKind::directory : FileKind::other;
}

class PosixFs final : public Fs {
 public:
  std::unique_ptr<File> open(const std::string& path) override {
    // O_NONBLOCK, because opening a FIFO for reading would wait for a writer.
    return opened(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), "open", false);
  }

  std::unique_ptr<File> create(const std::string& path) override {
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    return opened(path, ::open(path.c_str(), flags, 0640), "create", true);
  }

  std::unique_ptr<File> open_append(const std::string& path) override {
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    return opened(path, ::open(path.c_str(), flags, 0640), "open for appending", true);
  }

  std::unique_ptr<MappedFile> map(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    PosixFile file(path, fd);  // closes the descriptor; the mapping stays
    const struct stat status = checked(path, fd, "open", false);
    if (status.st_size == 0) return std::make_unique<PosixMapping>(path, nullptr, status);
    const auto size = static_cast<size_t>(status.st_size);
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) throw fs_error(errno, "map", path);
    return std::make_unique<PosixMapping>(path, data, status);
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) throw fs_error(errno, "rename to", to, true);
  }

  void remove(const std::string& path) override {
    if (::remove(path.c_str()) != 0) throw fs_error(errno, "remove", path);
  }

  void make_dir(const std::string& path) override {
    if (::mkdir(path.c_str(), 0750) != 0) throw fs_error(errno, "create directory", path, true);
  }

  void sync_dir(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) throw fs_error(errno, "open directory", path);
    PosixFile directory(path, fd);
    // Some network file systems cannot sync a directory, and need not.
    const int failed = until_uninterrupted([&] { return ::fsync(fd); });
    if (failed != 0 && errno != EINVAL) throw fs_error(errno, "sync directory", path);
  }

  std::vector<std::string> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
    if (!directory) throw fs_error(errno, "list", path);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
      errno = 0;
    }
    if (errno != 0) throw fs_error(errno, "list", path);
    std::sort(names.begin(), names.end());
    return names;
  }

  std::optional<FileInfo> info(const std::string& path) override {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
      // Creating such a name will report the error.
      const bool none_can_be = errno == ENAMETOOLONG || errno == ELOOP;
      if (errno == ENOENT || errno == ENOTDIR || none_can_be) return std::nullopt;
      throw fs_error(errno, "inspect", path);
    }
    const bool link = S_ISLNK(status.st_mode);
    struct stat target {};
    const bool missing = link && ::stat(path.c_str(), &target) != 0;
    if (link && !missing) status = target;
    const int64_t ns = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
    const FileKind kind = missing ? FileKind::missing : kind_of(status.st_mode);
    return FileInfo{kind, link, status.st_size, ns};
  }

  int64_t free_space(const std::string& path) override {
    struct statvfs status {};
    if (::statvfs(path.c_str(), &status) != 0) throw fs_error(errno, "inspect disk of", path);
    return static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
  }

 private:
  static struct stat checked(const std::string& path, int fd, const char* action, bool creating) {
    if (fd < 0) throw fs_error(errno, action, path, creating);
    struct stat status {};
    if (::fstat(fd, &status) != 0) throw fs_error(errno, "inspect", path);
    if (!creating && !S_ISREG(status.st_mode)) {
      const char* kind = S_ISDIR(status.st_mode) ? "a directory" : "not a regular file";
      throw Error(ExitCode::bad_data, fmt::format("cannot read {}: it is {}", path, kind),
                  "give the path of a regular file");
    }
    return status;
  }

  static std::unique_ptr<File> opened(const std::string& path, int fd, const char* action,
                                      bool creating) {
    PosixFile guard(path, fd);
    const auto size = checked(path, fd, action, creating).st_size;
    return std::make_unique<PosixFile>(path, guard.release(), size);
  }
};

// A page that has vanished under a mapping raises SIGBUS on the thread that touches it. Copies set
// a target to jump to; a SIGBUS anywhere else is a real fault and ends the process as usual.
// Volatile, with fences around the copy, because only the signal handler reads it.
thread_local sigjmp_buf* volatile bus_target = nullptr;

void on_sigbus(int signal) {
  if (bus_target != nullptr) siglongjmp(*bus_target, 1);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void install_bus_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_handler = on_sigbus;
    action.sa_flags = SA_NODEFER;  // the jump leaves the handler, so SIGBUS must stay unblocked
    sigaction(SIGBUS, &action, nullptr);
  });
}

}  // namespace

void MappedFile::copy(void* out, size_t bytes, int64_t offset) const {
  STRETTO_CHECK(offset >= 0 && offset <= size_ && bytes <= static_cast<size_t>(size_ - offset),
                "{} bytes at {} of {} ({} bytes)", bytes, offset, path_, size_);
  install_bus_handler();
  sigjmp_buf target;
  if (sigsetjmp(target, 0) != 0) {
    bus_target = nullptr;
    throw shrunk(path_, size_);
  }
  bus_target = &target;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (bytes > 0) std::memcpy(out, data_ + offset, bytes);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  bus_target = nullptr;
}

Fs& posix_fs() {
  static PosixFs fs;
  return fs;
}

}  // namespace stretto
