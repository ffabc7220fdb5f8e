// Learns a byte-level BPE vocabulary from text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/corpus.h"
#include "data/tokenizer.h"

namespace stretto {

struct TrainTokenizerOptions {
  int64_t vocab_size = 50257;  // including the 256 bytes and the special tokens
  int64_t min_count = 2;       // pairs seen less often are not merged
  std::string pattern = kGpt2Pattern;
  std::vector<std::string> special = {"<|endoftext|>"};
  int threads = 1;
};

// How often each piece of text occurs. Counting is separate from training so that blocks of a
// corpus can be counted in parallel, with memory only for distinct pieces.
class PieceCounts {
 public:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const;
  };
  using Map = std::unordered_map<std::string, int64_t, Hash, std::equal_to<>>;

  // Adds the pieces of `text`. Runs of bytes that are not UTF-8 are left out.
  void add(const Splitter& splitter, std::string_view text);
  void merge(PieceCounts&& other);
  const Map& map() const { return map_; }

  // Longer pieces (rulers, runs of zero bytes, text without spaces) are left out: they teach
  // little, and each merge inside one goes over all of it.
  static constexpr size_t kMaxPieceBytes = 16384;
  struct LeftOut {
    int64_t pieces = 0, bytes = 0;
  };
  const LeftOut& left_out() const { return left_out_; }

 private:
  Map map_;
  LeftOut left_out_;
};

// Counts a whole corpus. `progress` is called with the bytes of each block, from several threads.
PieceCounts count_pieces(CorpusReader& corpus, const Splitter& splitter, int threads,
                         const std::function<void(int64_t)>& progress = {});

// Repeatedly merges the most frequent pair (of equals the one with the lowest ids). Order of ids:
// special tokens, bytes in the order of their spelling, merges. The result does not depend on the
// number of threads. `progress` is called now and then with the size of the vocabulary.
Tokenizer train_tokenizer(const PieceCounts& counts, const TrainTokenizerOptions& options,
                          const std::function<void(int64_t)>& progress = {});

}  // namespace stretto
