#include "backend/cuda/tune_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/log.h"

namespace stretto::cuda {
namespace {

std::filesystem::path user_cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return cache;
  if (const char* home = std::getenv("HOME"); home && *home) {
    return std::filesystem::path(home) / ".cache";
  }
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(none);
  return none ? "/tmp" : folder;
}

[[noreturn]] void cannot_write(const std::string& path) {
  throw Error(ExitCode::io_error, fmt::format("cannot write {}", path),
              "set the environment variable XDG_CACHE_HOME to a folder that can be written");
}

// Ranks may be threads with a cache each: one of them speaks.
void warn_once_that_unwritten(const std::string& path) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (!said.insert(path).second) return;
  spdlog::warn(
      "cuda: cannot write {}: each process measures by itself which algorithms are fastest, "
      "so two runs may differ in their last bits in spite of repeatable=true; "
      "the environment variable XDG_CACHE_HOME names another folder",
      path);
}

// The format's own mark: lines of another format, or a torn last line, are not taken for ours.
constexpr const char* kEnd = " .";

// The file, held by one rank at a time.
class Locked {
 public:
  explicit Locked(const std::filesystem::path& path) {
    std::error_code ignored;
    std::filesystem::create_directories(path.parent_path(), ignored);
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd_ >= 0) ::flock(fd_, LOCK_EX);
  }
  ~Locked() {
    if (fd_ >= 0) ::close(fd_);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  bool open() const { return fd_ >= 0; }
  bool append(const std::string& line) const {
    if (!open()) return false;
    const std::string text = (torn() ? "\n" : "") + line;
    return ::write(fd_, text.data(), text.size()) == std::ssize(text);
  }

 private:
  bool torn() const {  // whoever wrote last was killed in the middle of a line
    const off_t size = ::lseek(fd_, 0, SEEK_END);
    char last = '\n';
    return size > 0 && ::pread(fd_, &last, 1, size - 1) == 1 && last != '\n';
  }
  int fd_ = -1;
};

}  // namespace

TuneCache::TuneCache(std::string path, const std::string& name) : path_(std::move(path)) {
  if (path_.empty()) path_ = user_cache_folder() / "stretto" / (name + ".txt");
  read();
}

void TuneCache::read() {
  std::ifstream file(path_);
  std::string line;
  while (std::getline(file, line)) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos || !line.ends_with(kEnd)) continue;
    entries_[line.substr(0, tab)] = line.substr(tab + 1, line.size() - tab - 3);
  }
}

std::optional<std::string> TuneCache::find(const std::string& key) const {
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return std::nullopt;
  return entry->second;
}

std::string TuneCache::settle(const std::string& key, const std::string& value,
                              const std::optional<std::string>& refused) {
  const Locked file(path_);
  if (file.open()) read();
  if (const auto first = find(key); first && first != refused) return *first;
  entries_[key] = value;
  if (!file.append(key + '\t' + value + kEnd + '\n')) warn_once_that_unwritten(path_);
  return value;
}

void TuneCache::require_writable() const {
  if (!Locked(path_).open()) cannot_write(path_);
}

// A later line of the file outdoes an earlier one.
void TuneCache::replace(const std::string& key, const std::string& value) {
  const Locked file(path_);
  entries_[key] = value;
  if (!file.append(key + '\t' + value + kEnd + '\n')) cannot_write(path_);
}

}  // namespace stretto::cuda
