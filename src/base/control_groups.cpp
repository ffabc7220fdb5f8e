#include "base/control_groups.h"

#include <algorithm>
#include <charconv>

#include "base/host.h"

namespace stretto {
namespace {

// Stands for "max". Version 1 has no such word, but the largest number of whole pages.
constexpr int64_t kNoLimit = int64_t{1} << 60;

// The number at the beginning of a text, if it is a limit.
std::optional<int64_t> limit_in(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number <= 0 || number >= kNoLimit) return std::nullopt;
  return number;
}

bool lists(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == wanted) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

// Calls visit(directory, version) for the process's groups of a controller and for all groups above
// them, whose limits apply as well. In a container the path may be that of the host; the group
// itself is then mounted at the root.
template <typename Visit>
void each_group(std::string_view groups, const std::string& controller, const Visit& visit) {
  const auto upwards = [&](const std::string& root, std::string path, int version) {
    if (path.ends_with('/')) path.pop_back();
    while (true) {
      visit(root + path + "/", version);
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
    const std::string path(line.substr(second + 1));
    if (controllers.empty()) upwards("/sys/fs/cgroup", path, 2);
    if (lists(controllers, controller)) upwards("/sys/fs/cgroup/" + controller, path, 1);
  }
}

template <typename T>
void take_less(std::optional<T>& least, const std::optional<T>& limit) {
  if (limit) least = std::min(least.value_or(*limit), *limit);
}

}  // namespace

std::optional<double> read_cpu_max(std::string_view text) {
  const size_t space = std::min(text.find(' '), text.size());
  const auto quota = limit_in(text.substr(0, space));
  const auto period = limit_in(text.substr(std::min(space + 1, text.size())));
  if (!quota || !period) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<int64_t> memory_limit(std::string_view groups, const KernelFile& read) {
  std::optional<int64_t> least;
  each_group(groups, "memory", [&](const std::string& group, int version) {
    take_less(least,
              limit_in(read(group + (version == 2 ? "memory.max" : "memory.limit_in_bytes"))));
  });
  return least;
}

std::optional<double> core_limit(std::string_view groups, const KernelFile& read) {
  std::optional<double> least;
  each_group(groups, "cpu", [&](const std::string& group, int version) {
    const auto number = [&](const char* file) {
      const std::string text = read(group + file);
      return text.substr(0, text.find('\n'));
    };
    take_less(least, read_cpu_max(version == 2 ? number("cpu.max")
                                               : number("cpu.cfs_quota_us") + " " +
                                                     number("cpu.cfs_period_us")));
  });
  return least;
}

std::optional<int64_t> memory_limit() {
  return memory_limit(kernel_file("/proc/self/cgroup"), kernel_file);
}

std::optional<double> core_limit() {
  return core_limit(kernel_file("/proc/self/cgroup"), kernel_file);
}

}  // namespace stretto
