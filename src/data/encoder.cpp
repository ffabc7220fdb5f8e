#include "data/encoder.h"

#include <algorithm>
#include <cstring>
#include <queue>

#include "base/utf8.h"
#include "data/unicode.h"

namespace stretto {
namespace {

constexpr size_t kCacheLines = size_t{1} << 16;  // 4 MiB per encoder
// For pieces longer than this, a heap finds the best pair faster than a scan.
constexpr size_t kLongPiece = 256;

}  // namespace

Encoder::Encoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer), cache_(kCacheLines) {
  for (const AddedToken& token : tokenizer.spec().added) {
    Finder& finder = token.normalized ? normalized_ : plain_;
    // It is matched in normalized text, so it must be normalized, too.
    const bool composes = token.normalized && tokenizer.spec().nfc;
    finder.tokens.push_back({composes ? normalize_nfc(token.text) : token.text, token.id});
    finder.starts[static_cast<unsigned char>(finder.tokens.back().text[0])] = true;
  }
  for (Finder* finder : {&plain_, &normalized_}) {
    std::stable_sort(finder->tokens.begin(), finder->tokens.end(),
                     [](const auto& a, const auto& b) { return a.text.size() > b.text.size(); });
  }
}

const Encoder::Finder::Wanted* Encoder::Finder::match(std::string_view rest) const {
  for (const Wanted& token : tokens) {
    if (rest.starts_with(token.text)) return &token;
  }
  return nullptr;
}

void Encoder::encode(std::string_view text, std::vector<int32_t>& out, bool continues) {
  continues_ = continues;
  cut_at_added(plain_, text, out, [&](std::string_view rest) { encode_raw(rest, out, true); });
}

void Encoder::encode_ordinary(std::string_view text, std::vector<int32_t>& out) {
  continues_ = false;
  encode_raw(text, out, false);
}

// Emits the added tokens that `finder` finds, and passes the text between them to `rest`.
template <typename Rest>
void Encoder::cut_at_added(const Finder& finder, std::string_view text, std::vector<int32_t>& out,
                           const Rest& rest) {
  size_t begin = 0;
  if (!finder.tokens.empty()) {
    for (size_t at = 0; at < text.size();) {
      const bool possible = finder.starts[static_cast<unsigned char>(text[at])];
      const Finder::Wanted* token = possible ? finder.match(text.substr(at)) : nullptr;
      if (token == nullptr) {
        ++at;
        continue;
      }
      if (at > begin) rest(text.substr(begin, at - begin));
      out.push_back(token->id);
      continues_ = false;
      at += token->text.size();
      begin = at;
    }
  }
  if (begin < text.size()) rest(text.substr(begin));
}

void Encoder::encode_raw(std::string_view text, std::vector<int32_t>& out, bool added) {
  while (!text.empty()) {
    const size_t valid = valid_utf8_prefix(text);
    if (valid > 0) encode_valid(text.substr(0, valid), out, added);
    text.remove_prefix(valid);
    size_t invalid = 0;
    while (invalid < text.size() && decode_utf8(text.substr(invalid, 4)).bytes == 0) ++invalid;
    if (invalid > 0) {
      encode_piece(text.substr(0, invalid), out);
      continues_ = true;
    }
    text.remove_prefix(invalid);
  }
}

void Encoder::encode_valid(std::string_view text, std::vector<int32_t>& out, bool added) {
  std::string composed;
  if (tokenizer_.spec().nfc) {
    composed = normalize_nfc(text);
    text = composed;
  }
  if (!added) return encode_segment(text, out);
  cut_at_added(normalized_, text, out, [&](std::string_view rest) { encode_segment(rest, out); });
}

void Encoder::encode_segment(std::string_view text, std::vector<int32_t>& out) {
  std::string prefixed;
  if (tokenizer_.spec().prefix_space && !text.starts_with(' ') && !continues_) {
    prefixed = " ";
    prefixed += text;
    text = prefixed;
  }
  continues_ = false;
  const Splitter& splitter = tokenizer_.splitter();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = splitter.next(text, begin);
    encode_piece(text.substr(begin, end - begin), out);
    begin = end;
  }
}

void Encoder::encode_piece(std::string_view piece, std::vector<int32_t>& out) {
  if (piece.size() == 1) {
    out.push_back(tokenizer_.byte_id(static_cast<unsigned char>(piece[0])));
    return;
  }
  if (piece.size() > CacheLine::kBytes) return merge_piece(piece, out);
  uint64_t key[CacheLine::kBytes / 8] = {};
  std::memcpy(key, piece.data(), piece.size());
  uint64_t hash = piece.size();
  for (const uint64_t word : key) hash = (hash ^ word) * 0x9E3779B97F4A7C15ull, hash ^= hash >> 32;
  CacheLine& line = cache_[hash & (kCacheLines - 1)];
  if (line.bytes == piece.size() && std::memcmp(line.key, key, sizeof(key)) == 0) {
    out.insert(out.end(), line.ids, line.ids + line.count);
    return;
  }
  const size_t before = out.size();
  merge_piece(piece, out);
  const size_t count = out.size() - before;
  if (count > CacheLine::kIds) return;
  std::memcpy(line.key, key, sizeof(key));
  std::copy_n(out.begin() + static_cast<ptrdiff_t>(before), count, line.ids);
  line.bytes = static_cast<uint8_t>(piece.size());
  line.count = static_cast<uint8_t>(count);
}

// Merges the pair of lowest rank (the leftmost of equals) until no pair can be merged.
void Encoder::merge_piece(std::string_view piece, std::vector<int32_t>& out) {
  if (tokenizer_.spec().ignore_merges) {
    if (const auto id = tokenizer_.find(piece)) {
      out.push_back(*id);
      return;
    }
  }
  if (piece.size() > kLongPiece) return merge_long_piece(piece, out);
  size_t n = piece.size();
  ids_.resize(n);
  ranks_.resize(n);
  for (size_t i = 0; i < n; ++i) ids_[i] = tokenizer_.byte_id(static_cast<unsigned char>(piece[i]));
  for (size_t i = 0; i + 1 < n; ++i) ranks_[i] = tokenizer_.merge_of(ids_[i], ids_[i + 1]).rank;
  while (n > 1) {
    const auto best = std::min_element(ranks_.begin(), ranks_.begin() + ptrdiff_t(n) - 1);
    if (*best == Tokenizer::kNoRank) break;
    const auto i = static_cast<size_t>(best - ranks_.begin());
    ids_[i] = tokenizer_.merge_of(ids_[i], ids_[i + 1]).result;
    std::copy(ids_.begin() + ptrdiff_t(i) + 2, ids_.begin() + ptrdiff_t(n),
              ids_.begin() + ptrdiff_t(i) + 1);
    std::copy(ranks_.begin() + ptrdiff_t(i) + 2, ranks_.begin() + ptrdiff_t(n),
              ranks_.begin() + ptrdiff_t(i) + 1);
    --n;
    if (i + 1 < n) ranks_[i] = tokenizer_.merge_of(ids_[i], ids_[i + 1]).rank;
    if (i > 0) ranks_[i - 1] = tokenizer_.merge_of(ids_[i - 1], ids_[i]).rank;
  }
  out.insert(out.end(), ids_.begin(), ids_.begin() + ptrdiff_t(n));
}

// The same result in n log n, with a linked list of symbols and a heap of candidate pairs. A merge
// makes entries of its neighbours stale; they are recognized by their ids and skipped.
void Encoder::merge_long_piece(std::string_view piece, std::vector<int32_t>& out) {
  struct Symbol {
    int32_t id;
    int64_t previous, next;  // -1: none
  };
  struct Candidate {
    uint32_t rank;
    int64_t at;
    int32_t left, right, result;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  const auto n = static_cast<int64_t>(piece.size());
  std::vector<Symbol> symbols(piece.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto consider = [&](int64_t at) {
    if (at < 0 || symbols[size_t(at)].next < 0) return;
    const int32_t left = symbols[size_t(at)].id;
    const int32_t right = symbols[size_t(symbols[size_t(at)].next)].id;
    const auto [rank, result] = tokenizer_.merge_of(left, right);
    if (rank != Tokenizer::kNoRank) heap.push({rank, at, left, right, result});
  };
  for (int64_t i = 0; i < n; ++i) {
    symbols[size_t(i)] = {tokenizer_.byte_id(static_cast<unsigned char>(piece[size_t(i)])), i - 1,
                          i + 1 < n ? i + 1 : -1};
  }
  for (int64_t i = 0; i < n; ++i) consider(i);
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    Symbol& left = symbols[size_t(top.at)];
    if (left.id != top.left || left.next < 0) continue;
    Symbol& right = symbols[size_t(left.next)];
    if (right.id != top.right) continue;
    left.id = top.result;
    right.id = -1;  // never matches a candidate again
    left.next = right.next;
    if (left.next >= 0) symbols[size_t(left.next)].previous = top.at;
    consider(left.previous);
    consider(top.at);
  }
  for (int64_t at = 0; at >= 0; at = symbols[size_t(at)].next)
    out.push_back(symbols[size_t(at)].id);
}

}  // namespace stretto
