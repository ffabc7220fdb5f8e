#include "data/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <queue>
#include <unordered_set>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "data/unicode.h"
#include "data/workers.h"

namespace stretto {
namespace {

using PairKey = uint64_t;

PairKey key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}
int32_t left_of(PairKey key) { return static_cast<int32_t>(key >> 32); }
int32_t right_of(PairKey key) { return static_cast<int32_t>(key & 0xffffffffu); }

struct PairHash {
  size_t operator()(PairKey key) const {
    key *= 0x9E3779B97F4A7C15ull;
    return static_cast<size_t>(key ^ key >> 32);
  }
};

// The corpus as distinct pieces with counts. For each pair of neighbours it has the total count and
// the pieces in which the pair may occur. A merge touches only these pieces; nothing is scanned
// again.
class PairTable {
 public:
  PairTable(const PieceCounts& counts, const std::vector<int32_t>& byte_ids) {
    // The order of a hash table differs between machines; sorted pieces make every run the same.
    std::vector<std::pair<std::string_view, int64_t>> pieces(counts.map().begin(),
                                                             counts.map().end());
    std::erase_if(pieces, [](const auto& p) { return p.first.size() < 2; });
    std::sort(pieces.begin(), pieces.end());
    for (const auto& [text, count] : pieces) {
      const auto begin = symbols_.size();
      for (const char c : text) symbols_.push_back(byte_ids[static_cast<unsigned char>(c)]);
      pieces_.push_back({begin, static_cast<uint32_t>(text.size()), count});
      const auto index = static_cast<uint32_t>(pieces_.size() - 1);
      for (size_t i = begin; i + 1 < symbols_.size(); ++i) {
        add(key_of(symbols_[i], symbols_[i + 1]), count, index);
      }
    }
    for (const auto& [key, pair] : pairs_) heap_.push({pair.count, key});
  }

  struct Best {
    int64_t count = 0;
    PairKey key = 0;
    // Order of the heap: larger counts first, then smaller pairs.
    bool operator<(const Best& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };

  // The most frequent pair; count 0 if none is left. Counts in the heap are upper bounds: an entry
  // whose count has fallen goes back with its true count.
  Best pop() {
    while (!heap_.empty()) {
      Best best = heap_.top();
      heap_.pop();
      const auto found = pairs_.find(best.key);
      if (found == pairs_.end()) continue;
      const int64_t now = found->second.count;
      if (now == best.count) return best;
      if (now > 0) heap_.push({now, best.key});
    }
    return {};
  }

  void merge(PairKey key, int32_t result) {
    const std::vector<uint32_t> where = std::move(pairs_.at(key).pieces);
    for (const uint32_t index : where) merge_in(index, left_of(key), right_of(key), result);
    pairs_.erase(key);
    std::sort(fresh_.begin(), fresh_.end());
    fresh_.erase(std::unique(fresh_.begin(), fresh_.end()), fresh_.end());
    for (const PairKey pair : fresh_) {
      if (const auto found = pairs_.find(pair); found != pairs_.end() && found->second.count > 0) {
        heap_.push({found->second.count, pair});
      }
    }
    fresh_.clear();
  }

 private:
  struct Piece {
    size_t begin;
    uint32_t size;
    int64_t count;
  };
  struct Pair {
    int64_t count = 0;
    std::vector<uint32_t> pieces;
  };

  void add(PairKey key, int64_t count, uint32_t piece) {
    Pair& pair = pairs_[key];
    pair.count += count;
    if (pair.pieces.empty() || pair.pieces.back() != piece) pair.pieces.push_back(piece);
  }

  void drop(PairKey key, int64_t count) {
    if (const auto found = pairs_.find(key); found != pairs_.end()) found->second.count -= count;
  }

  void merge_in(uint32_t index, int32_t left, int32_t right, int32_t result) {
    Piece& piece = pieces_[index];
    int32_t* symbols = symbols_.data() + piece.begin;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < piece.size;) {
      if (i + 1 >= piece.size || symbols[i] != left || symbols[i + 1] != right) {
        symbols[kept++] = symbols[i++];
        continue;
      }
      if (kept > 0) {
        drop(key_of(symbols[kept - 1], left), piece.count);
        introduce(key_of(symbols[kept - 1], result), piece.count, index);
      }
      if (i + 2 < piece.size) {
        drop(key_of(right, symbols[i + 2]), piece.count);
        introduce(key_of(result, symbols[i + 2]), piece.count, index);
      }
      symbols[kept++] = result;
      i += 2;
    }
    piece.size = kept;
  }

  void introduce(PairKey key, int64_t count, uint32_t piece) {
    add(key, count, piece);
    fresh_.push_back(key);
  }

  std::vector<int32_t> symbols_;
  std::vector<Piece> pieces_;
  std::unordered_map<PairKey, Pair, PairHash> pairs_;
  std::priority_queue<Best> heap_;
  std::vector<PairKey> fresh_;
};

// Files identify a token by its spelling, so a special token must not be spelled like another one.
void check_special(const std::vector<std::string>& special) {
  std::unordered_set<std::string> taken = {""};
  for (int byte = 0; byte < 256; ++byte) {
    taken.insert(spell_bytes(std::string(1, static_cast<char>(byte))));
  }
  for (const std::string& text : special) {
    if (taken.insert(text).second && valid_utf8_prefix(text) == text.size()) continue;
    throw Error(ExitCode::usage, fmt::format("special token \"{}\"", printable(text)),
                "give each once, as text of at least two characters such as <|pad|>");
  }
}

// Special tokens first, then the bytes in the order of their printable spelling.
std::vector<int32_t> first_tokens(const TrainTokenizerOptions& options, TokenizerSpec& spec) {
  for (const std::string& text : options.special) {
    spec.added.push_back({text, static_cast<int32_t>(spec.added.size()), true, false});
  }
  spec.tokens.resize(spec.added.size());
  std::vector<int> bytes(256);
  for (int byte = 0; byte < 256; ++byte) bytes[static_cast<size_t>(byte)] = byte;
  std::sort(bytes.begin(), bytes.end(), [](int a, int b) {
    return byte_characters()[size_t(a)] < byte_characters()[size_t(b)];
  });
  std::vector<int32_t> ids(256);
  for (const int byte : bytes) {
    ids[static_cast<size_t>(byte)] = static_cast<int32_t>(spec.tokens.size());
    spec.tokens.emplace_back(1, static_cast<char>(byte));
  }
  return ids;
}

}  // namespace

size_t PieceCounts::Hash::operator()(std::string_view text) const {
  return XXH3_64bits(text.data(), text.size());
}

void PieceCounts::add(const Splitter& splitter, std::string_view text) {
  while (!text.empty()) {
    const std::string_view valid = text.substr(0, valid_utf8_prefix(text));
    for (size_t begin = 0; begin < valid.size();) {
      const size_t end = splitter.next(valid, begin);
      const std::string_view piece = valid.substr(begin, end - begin);
      begin = end;
      if (piece.size() > kMaxPieceBytes) {
        ++left_out_.pieces;
        left_out_.bytes += std::ssize(piece);
        continue;
      }
      if (const auto found = map_.find(piece); found != map_.end()) {
        ++found->second;
      } else {
        map_.emplace(piece, 1);
      }
    }
    text.remove_prefix(std::min(text.size(), valid.size() + 1));
  }
}

void PieceCounts::merge(PieceCounts&& other) {
  if (map_.size() < other.map_.size()) map_.swap(other.map_);
  for (const auto& [piece, count] : other.map_) map_[piece] += count;
  left_out_.pieces += other.left_out_.pieces;
  left_out_.bytes += other.left_out_.bytes;
}

PieceCounts count_pieces(CorpusReader& corpus, const Splitter& splitter, int threads,
                         const std::function<void(int64_t)>& progress) {
  std::vector<PieceCounts> parts(static_cast<size_t>(std::max(threads, 1)));
  std::exception_ptr failure;  // the first
  std::mutex failure_mutex;
  std::atomic<bool> failed{false};
  run_workers(threads, [&](int worker) {
    PieceCounts& part = parts[static_cast<size_t>(worker)];
    try {
      CorpusBlock block;
      while (!failed && corpus.next(block)) {
        corpus.documents(
            block, [&](const CorpusReader::Part& document) { part.add(splitter, document.text); });
        if (progress) progress(static_cast<int64_t>(block.bytes.size()));
      }
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
  for (size_t i = 1; i < parts.size(); ++i) parts[0].merge(std::move(parts[i]));
  return std::move(parts[0]);
}

Tokenizer train_tokenizer(const PieceCounts& counts, const TrainTokenizerOptions& options,
                          const std::function<void(int64_t)>& progress) {
  const auto least = static_cast<int64_t>(256 + options.special.size());
  if (options.vocab_size < least || options.vocab_size > INT32_MAX) {
    throw Error(ExitCode::usage, fmt::format("vocabulary size {}", options.vocab_size),
                fmt::format("use at least {}: the bytes and the special tokens", least));
  }
  check_special(options.special);
  const std::unordered_set<std::string> special(options.special.begin(), options.special.end());
  TokenizerSpec spec;
  spec.pattern = options.pattern;
  PairTable table(counts, first_tokens(options, spec));
  std::unordered_map<std::string, int32_t> known;
  for (size_t id = options.special.size(); id < spec.tokens.size(); ++id) {
    known.emplace(spec.tokens[id], static_cast<int32_t>(id));
  }
  while (static_cast<int64_t>(spec.tokens.size()) < options.vocab_size) {
    const auto [count, key] = table.pop();
    if (count < std::max<int64_t>(options.min_count, 1)) break;
    const auto left = left_of(key), right = right_of(key);
    const std::string bytes = spec.tokens[size_t(left)] + spec.tokens[size_t(right)];
    // A special token is found in texts before any merge.
    if (special.contains(spell_bytes(bytes))) continue;
    // Two pairs may make the same token; it keeps its first id.
    const auto [found, is_new] = known.emplace(bytes, static_cast<int32_t>(spec.tokens.size()));
    if (is_new) spec.tokens.push_back(bytes);
    spec.merges.push_back({left, right, found->second});
    table.merge(key, found->second);
    if (progress && spec.merges.size() % 256 == 0) {
      progress(static_cast<int64_t>(spec.tokens.size()));
    }
  }
  return {std::move(spec), "trained tokenizer"};
}

}  // namespace stretto
