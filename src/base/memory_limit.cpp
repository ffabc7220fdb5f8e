#include "base/memory_limit.h"

#include <algorithm>
#include <charconv>

#include "base/host.h"

namespace stretto {
namespace {

// "max", or what version 1 has for it: the largest number of whole pages.
constexpr int64_t kNoLimit = int64_t{1} << 60;

std::optional<int64_t> bytes_in(const std::string& text) {
  int64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || bytes <= 0 || bytes >= kNoLimit) return std::nullopt;
  return bytes;
}

bool lists_memory(std::string_view controllers) {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == "memory") return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

std::optional<int64_t> memory_limit(std::string_view groups,
                                    const std::function<std::string(const std::string&)>& read) {
  std::optional<int64_t> least;
  // A group's limit holds for those below it. In a container the path may be one of the host, and
  // what is mounted at the root is the group itself.
  const auto look = [&](const std::string& root, std::string path, const char* file) {
    while (true) {
      const auto limit = bytes_in(read(root + path + "/" + file));
      if (limit) least = std::min(least.value_or(*limit), *limit);
      if (path.empty()) return;
      const size_t slash = path.rfind('/');
      path.resize(slash == std::string::npos ? 0 : slash);
    }
  };
  while (!groups.empty()) {  // number:controllers:path
    const size_t end = std::min(groups.find('\n'), groups.size());
    const std::string_view line = groups.substr(0, end);
    groups.remove_prefix(std::min(end + 1, groups.size()));
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string path(line.substr(second + 1));
    if (path.ends_with('/')) path.pop_back();
    if (controllers.empty()) look("/sys/fs/cgroup", path, "memory.max");
    if (lists_memory(controllers)) look("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
  }
  return least;
}

std::optional<int64_t> memory_limit() {
  return memory_limit(kernel_file("/proc/self/cgroup"), kernel_file);
}

}  // namespace stretto
