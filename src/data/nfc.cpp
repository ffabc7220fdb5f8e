// Unicode normalization form C: decompose, order the marks, compose (UAX 15).
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/utf8.h"
#include "data/unicode.h"
#include "data/unicode_tables.h"

namespace stretto {
namespace {

// Hangul syllables are computed, not looked up.
constexpr uint32_t kSyllable = 0xac00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11a7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTails = 28, kSyllables = kLeads * kVowels * kTails;

struct Tables {
  std::unordered_map<uint32_t, Decomposition> decompositions;
  std::unordered_map<uint64_t, uint32_t> compositions;

  Tables() {
    for (const Decomposition& entry : unicode_decompositions()) {
      decompositions.emplace(entry.code, entry);
      if (entry.composes != 0) compositions.emplace(key(entry.first, entry.second), entry.code);
    }
  }
  static uint64_t key(uint32_t first, uint32_t second) { return uint64_t{first} << 32 | second; }
};

const Tables& tables() {
  static const Tables value;
  return value;
}

uint32_t combining_class(uint32_t code) {
  if (code < 0x300) return 0;
  const auto ranges = unicode_combining();
  const auto found = std::upper_bound(
      ranges.begin(), ranges.end(), code,
      [](uint32_t value, const CombiningRange& range) { return value < range.first; });
  if (found == ranges.begin() || code > std::prev(found)->last) return 0;
  return std::prev(found)->combining_class;
}

void decompose(uint32_t code, std::vector<uint32_t>& out) {
  if (code >= kSyllable && code < kSyllable + kSyllables) {
    const uint32_t index = code - kSyllable;
    out.push_back(kLead + index / (kVowels * kTails));
    out.push_back(kVowel + index / kTails % kVowels);
    if (index % kTails != 0) out.push_back(kTail + index % kTails);
    return;
  }
  const auto found = tables().decompositions.find(code);
  if (found == tables().decompositions.end()) {
    out.push_back(code);
    return;
  }
  decompose(found->second.first, out);  // at most four levels deep in the database
  if (found->second.second != 0) decompose(found->second.second, out);
}

uint32_t compose(uint32_t first, uint32_t second) {
  if (first >= kLead && first < kLead + kLeads && second >= kVowel && second < kVowel + kVowels) {
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTails;
  }
  if (first >= kSyllable && first < kSyllable + kSyllables && (first - kSyllable) % kTails == 0 &&
      second > kTail && second < kTail + kTails) {
    return first + (second - kTail);
  }
  const auto found = tables().compositions.find(Tables::key(first, second));
  return found == tables().compositions.end() ? 0 : found->second;
}

void order_marks(std::vector<uint32_t>& codes) {
  for (auto begin = codes.begin(); begin != codes.end();) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    auto end = begin;
    while (end != codes.end() && combining_class(*end) != 0) ++end;
    std::stable_sort(
        begin, end, [](uint32_t a, uint32_t b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

std::vector<uint32_t> composed(const std::vector<uint32_t>& codes) {
  std::vector<uint32_t> out;
  size_t starter = SIZE_MAX;  // where in `out` the last starter is
  uint32_t last_class = 0;    // of the last code kept after it
  for (const uint32_t code : codes) {
    const uint32_t current = combining_class(code);
    const bool adjacent = starter != SIZE_MAX && starter + 1 == out.size();
    if (starter != SIZE_MAX && (adjacent || (last_class != 0 && last_class < current))) {
      if (const uint32_t merged = compose(out[starter], code)) {
        out[starter] = merged;
        continue;
      }
    }
    if (current == 0) starter = out.size();
    last_class = current;
    out.push_back(code);
  }
  return out;
}

}  // namespace

std::string normalize_nfc(std::string_view text) {
  // Text that is all below U+0300 is normalized already.
  if (std::all_of(text.begin(), text.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0xcc; })) {
    return std::string(text);
  }
  std::vector<uint32_t> codes;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode_valid_utf8(text.data() + at);
    decompose(point.code, codes);
    at += point.bytes;
  }
  order_marks(codes);
  std::string out;
  out.reserve(text.size());
  for (const uint32_t code : composed(codes)) append_utf8(out, code);
  return out;
}

}  // namespace stretto
