#include "backend/cuda/tune_cache.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/log.h"

namespace stretto::cuda {
namespace {

std::filesystem::path user_cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return cache;
  if (const char* home = std::getenv("HOME"); home && *home) {
    return std::filesystem::path(home) / ".cache";
  }
  return std::filesystem::temp_directory_path();
}

// The format's own mark: lines of another format, or a torn last line, are not taken for ours.
constexpr const char* kEnd = " .";

}  // namespace

TuneCache::TuneCache(std::string path, const std::string& name) : path_(std::move(path)) {
  if (path_.empty()) path_ = user_cache_folder() / "stretto" / (name + ".txt");
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

void TuneCache::store(const std::string& key, const std::string& value) {
  entries_[key] = value;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  // One short write per line: ranks that tune at the same time append whole lines.
  std::ofstream file(path_, std::ios::app);
  file << key + '\t' + value + kEnd + '\n' << std::flush;
  if (!file) spdlog::debug("cuda: cannot remember measurements in {}", path_);
}

}  // namespace stretto::cuda
