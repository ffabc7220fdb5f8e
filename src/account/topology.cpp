#include "account/topology.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "account/stages.h"

namespace stretto {
namespace {

constexpr std::string_view kLayers = "transformer", kWithEnds = "transformer+embedding";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

// The numbers in "[3, 4, 5]"; empty if the text is no list of whole numbers.
std::vector<int64_t> numbers_in(std::string_view text) {
  if (text.size() < 3 || text.front() != '[' || text.back() != ']') return {};
  text = text.substr(1, text.size() - 2);
  std::vector<int64_t> stages;
  while (true) {
    text = trimmed(text);
    int64_t layers = 0;
    const auto [stop, ec] = std::from_chars(text.data(), text.data() + text.size(), layers);
    if (ec != std::errc()) return {};
    stages.push_back(layers);
    text.remove_prefix(static_cast<size_t>(stop - text.data()));
    text = trimmed(text);
    if (text.empty()) return stages;
    if (text.front() != ',') return {};
    text.remove_prefix(1);
  }
}

}  // namespace

Partition::Partition(std::string_view words) {
  if (words == kLayers) return;
  ends_count = words == kWithEnds;
  listed = numbers_in(words);
  if (!ends_count && listed.empty()) unknown = words;
}

std::string Partition::words() const {
  if (!unknown.empty()) return unknown;
  if (!listed.empty()) return fmt::format("[{}]", fmt::join(listed, ","));
  return std::string(ends_count ? kWithEnds : kLayers);
}

std::vector<int64_t> Partition::over(int64_t layers, int64_t stages) const {
  return listed.empty() ? even_partition(layers, stages, ends_count) : listed;
}

}  // namespace stretto
