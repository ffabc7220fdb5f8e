// Counts every file operation and lets one of them go wrong: the process dies there, or the system
// returns an error.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/fs.h"

namespace stretto::test {

// The process is gone: everything after this fails, too.
struct Killed : std::runtime_error {
  Killed() : std::runtime_error("killed") {}
};

class FaultFs final : public Fs {
 public:
  explicit FaultFs(Fs& real) : real_(real) {}

  int kill_at = -1;      // operation number, from 0; writes are half done
  bool sigkill = false;  // death is a signal to this process, not an exception
  int fail_at = -1;      // among operations of kind `fail_kind` ("" = any)
  std::string fail_kind;
  int error_number = 0;
  bool fail_from_then_on = false;
  bool torn_write = false;  // a write that fails is half done
  int operations = 0;
  int matching = 0;
  bool dead = false;
  // Hears of every operation before it happens, on the thread that wants it.
  std::function<void(const std::string& kind, const std::string& path)> on_operation;

  std::unique_ptr<File> open(const std::string& path) override {
    before("open", path);
    return std::make_unique<FaultFile>(*this, real_.open(path));
  }
  std::unique_ptr<File> create(const std::string& path) override {
    before("create", path);
    return std::make_unique<FaultFile>(*this, real_.create(path));
  }
  std::unique_ptr<File> open_append(const std::string& path) override {
    before("open_append", path);
    return std::make_unique<FaultFile>(*this, real_.open_append(path));
  }
  std::unique_ptr<MappedFile> map(const std::string& path) override {
    before("map", path);
    return real_.map(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    before("rename", to);
    real_.rename(from, to);
  }
  void remove(const std::string& path) override {
    before("remove", path);
    real_.remove(path);
  }
  void make_dir(const std::string& path) override {
    before("make_dir", path);
    real_.make_dir(path);
  }
  void sync_dir(const std::string& path) override {
    before("sync_dir", path);
    real_.sync_dir(path);
  }
  std::vector<std::string> list(const std::string& path) override {
    before("list", path);
    return real_.list(path);
  }
  std::optional<FileInfo> info(const std::string& path) override {
    before("info", path);
    return real_.info(path);
  }
  int64_t free_space(const std::string& path) override {
    before("free_space", path);
    return real_.free_space(path);
  }

 private:
  class FaultFile final : public File {
   public:
    FaultFile(FaultFs& fs, std::unique_ptr<File> real)
        : File(real->path(), real->appended()), fs_(fs), real_(std::move(real)) {}
    size_t read_at(void* out, size_t bytes, int64_t offset) override {
      fs_.before("read", path());
      return real_->read_at(out, bytes, offset);
    }
    void write_at(const void* data, size_t bytes, int64_t offset) override {
      try {
        fs_.before("write", path());
      } catch (...) {
        if (!fs_.dead && fs_.torn_write) real_->write_at(data, bytes / 2, offset);
        if (!fs_.dead || !fs_.just_died_) throw;
        fs_.just_died_ = false;
        real_->write_at(data, bytes / 2, offset);
        if (fs_.sigkill) ::raise(SIGKILL);
        throw;
      }
      real_->write_at(data, bytes, offset);
    }
    int64_t size() override {
      fs_.before("size", path());
      return real_->size();
    }
    void preallocate(int64_t bytes) override {
      fs_.before("preallocate", path());
      real_->preallocate(bytes);
    }
    void sync() override {
      fs_.before("sync", path());
      real_->sync();
    }
    void close() override {
      fs_.before("close", path());
      real_->close();
    }
    void bypass_cache() override {
      if (fs_.on_operation) fs_.on_operation("bypass_cache", path());  // cannot fail
      real_->bypass_cache();
    }
    bool hold() override { return real_->hold(); }
    bool held() override { return real_->held(); }

   private:
    FaultFs& fs_;
    std::unique_ptr<File> real_;
  };

  void before(const std::string& kind, const std::string& path) {
    if (on_operation) on_operation(kind, path);
    const std::lock_guard lock(mutex_);
    if (dead) throw Killed();
    if (operations++ == kill_at) {
      dead = just_died_ = true;
      if (sigkill && kind != "write") ::raise(SIGKILL);
      throw Killed();
    }
    if (error_number == 0 || (!fail_kind.empty() && kind != fail_kind)) return;
    const int n = matching++;
    if (n == fail_at || (fail_from_then_on && fail_at >= 0 && n > fail_at)) {
      throw fs_error(error_number, kind, path);
    }
  }

  Fs& real_;
  bool just_died_ = false;
  std::mutex mutex_;  // ranks and their writers are threads
};

}  // namespace stretto::test
