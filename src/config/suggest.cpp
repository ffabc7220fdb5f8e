#include "config/suggest.h"

#include <algorithm>
#include <numeric>

namespace stretto {
namespace {

// The number of edits that turn one word into the other; swapping two neighbours counts as one.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::vector<std::string> nearest_words(std::string_view word,
                                       const std::vector<std::string>& candidates, size_t most) {
  if (word.empty() || word.size() > 80) return {};
  const std::string wanted = lower(word);
  std::vector<std::pair<size_t, std::string>> found;
  for (const std::string& candidate : candidates) {
    const std::string known = lower(candidate);
    size_t cost = distance(wanted, known);
    const size_t allowed = std::max<size_t>(1, std::min(wanted.size(), known.size()) / 3);
    // An abbreviation ("gpt2", "check") is close to the words that begin with it, however long they
    // are.
    const bool prefix = wanted.size() >= 3 && known.compare(0, wanted.size(), wanted) == 0;
    if (prefix) cost = std::min(cost, allowed);
    if (cost <= allowed) found.emplace_back(cost, candidate);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> words;
  for (const auto& [cost, candidate] : found) {
    if (words.size() < most && cost <= found.front().first + 1) words.push_back(candidate);
  }
  return words;
}

std::string join_or(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         const std::string& otherwise) {
  std::vector<std::string> near = nearest_words(word, candidates);
  if (near.empty()) return otherwise;
  for (std::string& candidate : near) candidate = "'" + candidate + "'";
  return "did you mean " + join_or(near) + "?";
}

}  // namespace stretto
