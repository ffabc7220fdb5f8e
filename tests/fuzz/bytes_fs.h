// Files that exist only as the bytes under test. Reading is all they can do.
#pragma once

#include <cerrno>
#include <map>
#include <memory>
#include <string>

#include "base/fs.h"

namespace stretto {

class BytesFs final : public Fs {
 public:
  explicit BytesFs(std::map<std::string, std::string> files) : files_(std::move(files)) {}

  std::unique_ptr<MappedFile> map(const std::string& path) override {
    const auto found = files_.find(path);
    if (found == files_.end()) throw fs_error(ENOENT, "open", path);
    return std::make_unique<Bytes>(path, found->second);
  }
  std::optional<FileInfo> info(const std::string& path) override {
    const auto found = files_.find(path);
    if (found == files_.end()) return std::nullopt;
    return FileInfo{FileKind::regular, false, static_cast<int64_t>(found->second.size()), 0};
  }

  std::unique_ptr<File> open(const std::string& path) override { refuse(path); }
  std::unique_ptr<File> create(const std::string& path) override { refuse(path); }
  std::unique_ptr<File> open_append(const std::string& path) override { refuse(path); }
  void rename(const std::string& from, const std::string&) override { refuse(from); }
  void remove(const std::string& path) override { refuse(path); }
  void make_dir(const std::string& path) override { refuse(path); }
  void sync_dir(const std::string& path) override { refuse(path); }
  std::vector<std::string> list(const std::string& path) override { refuse(path); }
  int64_t free_space(const std::string& path) override { refuse(path); }

 private:
  class Bytes final : public MappedFile {
   public:
    Bytes(const std::string& path, const std::string& bytes)
        : MappedFile(path, bytes.data(), static_cast<int64_t>(bytes.size())) {}
  };

  [[noreturn]] static void refuse(const std::string& path) { throw fs_error(EROFS, "use", path); }

  std::map<std::string, std::string> files_;
};

}  // namespace stretto
