// Text to token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace stretto {

// Encodes with one tokenizer and caches frequent pieces. One per thread; the tokenizer must outlive
// it.
//
// Bytes that are not UTF-8 are kept: each run of them is a piece of its own, and the text before
// and after it is encoded as if it ended there.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer);

  // Appends the ids of `text` to `out`. Added tokens in the text are recognized. `continues`: this
  // is a later part of a document, so it gets no space in front.
  void encode(std::string_view text, std::vector<int32_t>& out, bool continues = false);
  // The same, but added tokens in the text are treated as ordinary text.
  void encode_ordinary(std::string_view text, std::vector<int32_t>& out);

 private:
  // One cache line: a piece of up to 32 bytes and its ids.
  struct alignas(64) CacheLine {
    static constexpr size_t kBytes = 32, kIds = 7;
    uint64_t key[kBytes / 8] = {};
    int32_t ids[kIds] = {};
    uint8_t bytes = 0;  // 0: unused
    uint8_t count = 0;
  };
  // Added tokens of one kind, found by their first byte; longest first.
  struct Finder {
    bool starts[256] = {};
    struct Wanted {
      std::string text;
      int32_t id;
    };
    std::vector<Wanted> tokens;
    const Wanted* match(std::string_view rest) const;
  };

  template <typename Rest>
  void cut_at_added(const Finder& finder, std::string_view text, std::vector<int32_t>& out,
                    const Rest& rest);
  void encode_raw(std::string_view text, std::vector<int32_t>& out, bool added);
  void encode_valid(std::string_view text, std::vector<int32_t>& out, bool added);
  void encode_segment(std::string_view text, std::vector<int32_t>& out);
  void encode_piece(std::string_view piece, std::vector<int32_t>& out);
  void merge_piece(std::string_view piece, std::vector<int32_t>& out);
  void merge_long_piece(std::string_view piece, std::vector<int32_t>& out);

  const Tokenizer& tokenizer_;
  Finder plain_, normalized_;
  bool continues_ = false;  // the next segment continues earlier text
  std::vector<CacheLine> cache_;
  std::vector<int32_t> ids_;
  std::vector<uint32_t> ranks_;
};

}  // namespace stretto
