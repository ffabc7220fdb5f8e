#include "machine/system_text.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace stretto {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

template <typename Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::optional<int64_t> leading_integer(std::string_view text) {
  text = trimmed(text);
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  text = trimmed(text);
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    text = trimmed(text.substr(end));
  }
  return words;
}

}  // namespace

CpuText read_cpuinfo(std::string_view text) {
  CpuText cpu;
  std::set<std::string> sockets;
  std::set<std::pair<std::string, std::string>> cores;
  std::string socket, core;
  for_each_line(text, [&](std::string_view line) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::string_view key = trimmed(line.substr(0, colon));
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (key == "processor") ++cpu.logical;
    if (key == "model name" && cpu.model.empty()) cpu.model = value;
    if ((key == "flags" || key == "Features") && cpu.flags.empty()) cpu.flags = split_words(value);
    if (key == "physical id") socket = value;
    if (key == "core id") core = value;
    if (key == "physical id") sockets.insert(socket);
    if (key == "core id") cores.emplace(socket, core);
  });
  // Arm's text lists no cores; then each processor counts as one.
  cpu.cores = cores.empty() ? cpu.logical : static_cast<int64_t>(cores.size());
  cpu.sockets = sockets.empty() ? 1 : static_cast<int64_t>(sockets.size());
  return cpu;
}

std::optional<int64_t> read_meminfo(std::string_view text, std::string_view key) {
  std::optional<int64_t> found;
  for_each_line(text, [&](std::string_view line) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || trimmed(line.substr(0, colon)) != key) return;
    const auto kib = leading_integer(line.substr(colon + 1));
    if (kib && *kib >= 0 && *kib < (int64_t{1} << 52)) found = *kib * 1024;
  });
  return found;
}

std::optional<int64_t> read_cache_size(std::string_view text) {
  text = trimmed(text);
  const auto number = leading_integer(text);
  if (!number || *number <= 0 || *number > (int64_t{1} << 40)) return std::nullopt;
  if (text.ends_with('K')) return *number << 10;
  if (text.ends_with('M')) return *number << 20;
  return *number;
}

int64_t count_cpu_list(std::string_view text) {
  int64_t count = 0;
  text = trimmed(text);
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view range = text.substr(0, end);
    const auto first = leading_integer(range);
    const size_t dash = range.find('-');
    const auto last =
        dash == std::string_view::npos ? first : leading_integer(range.substr(dash + 1));
    if (first && last && *last >= *first && *last < (1 << 20)) count += *last - *first + 1;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return count;
}

std::optional<int64_t> read_busy_ticks(std::string_view text, const std::vector<int>& cores) {
  int64_t busy = 0;
  size_t found = 0;
  for_each_line(text, [&](std::string_view line) {
    if (!line.starts_with("cpu")) return;
    const auto words = split_words(line.substr(3));
    // Fields: number, user, nice, system, idle, waiting for disks, interrupts (two), stolen.
    if (line.starts_with("cpu ") || words.size() < 9) return;
    const auto core = leading_integer(words[0]);
    if (!core || std::find(cores.begin(), cores.end(), *core) == cores.end()) return;
    for (const size_t i : {1, 2, 3, 6, 7, 8}) busy += leading_integer(words[i]).value_or(0);
    ++found;
  });
  if (cores.empty() || found != cores.size()) return std::nullopt;
  return busy;
}

std::optional<std::string> read_os_release(std::string_view text) {
  std::optional<std::string> name;
  for_each_line(text, [&](std::string_view line) {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    if (!line.starts_with(kKey)) return;
    std::string_view value = trimmed(line.substr(kKey.size()));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    name = std::string(value);
  });
  return name;
}

}  // namespace stretto
