// A directory that lives as long as the test, and what its files hold.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace stretto {

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// memory: where syncing is free, for tests that do it thousands of times.
enum class Where { disk, memory };

class TempDir {
 public:
  explicit TempDir(Where where = Where::disk) {
    const bool memory = where == Where::memory && std::filesystem::is_directory("/dev/shm");
    const std::filesystem::path parent =
        memory ? "/dev/shm" : std::filesystem::temp_directory_path();
    std::string pattern = (parent / "stretto-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

  std::string write(std::string_view name, std::string_view content) const {
    const std::string file = *this / name;
    std::ofstream(file, std::ios::binary).write(content.data(), std::ssize(content));
    return file;
  }

  size_t entries() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
};

}  // namespace stretto
