// Byte-level BPE tokenizers: GPT-2, NeoX, Llama-3 and our own. A Tokenizer is immutable and shared;
// each thread encodes through its own Encoder (encoder.h).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/fs.h"
#include "data/splitter.h"

namespace stretto {

// A token that is matched in the text before the text is split.
struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool special = true;  // decode() can leave these out
  // Matched after normalization, in the text between the other added tokens.
  bool normalized = false;

  bool operator==(const AddedToken&) const = default;
};

struct Merge {
  int32_t left, right, result;  // ids

  bool operator==(const Merge&) const = default;
};

// The content of a tokenizer file.
struct TokenizerSpec {
  std::string pattern = kGpt2Pattern;
  bool split = true;                // off: the text between added tokens is one piece
  bool nfc = false;                 // normalize to NFC first
  bool prefix_space = false;        // text that does not begin with a space gets one
  bool ignore_merges = false;       // a piece that is a token needs no merges
  std::vector<std::string> tokens;  // bytes by id; empty for added tokens and unused ids
  std::vector<Merge> merges;        // by rank
  std::vector<AddedToken> added;

  bool operator==(const TokenizerSpec&) const = default;
};

class Tokenizer {
 public:
  // Checks the specification; throws bad_data naming `name`. All 256 single bytes must be tokens,
  // so that every text can be encoded and decoded without change.
  Tokenizer(TokenizerSpec spec, const std::string& name);

  int64_t vocab_size() const { return static_cast<int64_t>(bytes_.size()); }  // highest id + 1
  const TokenizerSpec& spec() const { return spec_; }
  const Splitter& splitter() const { return *splitter_; }

  // The bytes of a token; empty for an unused id.
  std::string_view bytes_of(int32_t id) const;
  // Only among tokens that are not added.
  std::optional<int32_t> find(std::string_view bytes) const;
  std::optional<int32_t> find_added(std::string_view text) const;
  bool is_special(int32_t id) const;
  // The token that ends a document: <|endoftext|> or <|end_of_text|>.
  std::optional<int32_t> end_of_document() const;

  int32_t byte_id(unsigned char byte) const { return byte_ids_[byte]; }
  struct Ranked {
    uint32_t rank;
    int32_t result;
  };
  static constexpr uint32_t kNoRank = UINT32_MAX;
  // The merge of two neighbours, rank kNoRank when there is none.
  Ranked merge_of(int32_t left, int32_t right) const {
    for (size_t at = slot_of(left, right);; at = (at + 1) & merge_mask_) {
      const MergeSlot& slot = merge_table_[at];
      if (slot.left == left && slot.right == right) return {slot.rank, slot.result};
      if (slot.left < 0) return {kNoRank, 0};
    }
  }

  // The bytes of all ids; bad_data for an id outside the vocabulary.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

 private:
  struct MergeSlot {
    int32_t left = -1, right = -1;
    uint32_t rank = 0;
    int32_t result = 0;
  };

  size_t slot_of(int32_t left, int32_t right) const {
    const uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15ull) >> 32) & merge_mask_;
  }
  void index_tokens(const std::string& name);
  void index_added(const std::string& name);
  void index_merges(const std::string& name);

  TokenizerSpec spec_;
  std::vector<std::string> bytes_;
  std::unordered_map<std::string_view, int32_t> ids_;
  std::array<int32_t, 256> byte_ids_{};
  std::vector<MergeSlot> merge_table_;
  size_t merge_mask_ = 0;
  std::unique_ptr<Splitter> splitter_;
};

// Whether both give the same ids for every text and the same text for all ids, whatever kind of
// file they come from. (In vocab.json added tokens are among the others; tokenizer.json has them
// separately or in both places.)
bool same_tokenizer(const Tokenizer& a, const Tokenizer& b);

// Throws bad_config naming `name` if the tokenizer has ids that a model with `vocab` words does not
// have.
void require_vocab(const Tokenizer& tokenizer, int64_t vocab, const std::string& name);

// Each byte is a token whose id is the byte: for models without a tokenizer.
Tokenizer byte_tokenizer();

// From a tokenizer.json, a vocab.json (merges.txt beside it), or a directory with either.
Tokenizer load_tokenizer(const std::string& path, Fs& fs = posix_fs());
Tokenizer tokenizer_from_json(std::string_view text, const std::string& name);
Tokenizer tokenizer_from_vocab(std::string_view vocab_json, std::string_view merges_txt,
                               const std::string& name);

std::string tokenizer_to_json(const Tokenizer& tokenizer);
std::string vocab_to_json(const Tokenizer& tokenizer);   // vocab.json
std::string merges_to_text(const Tokenizer& tokenizer);  // merges.txt

// Turns a stream of ids into text that can be shown at once; bytes of an incomplete character are
// held back until it is complete.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string push(int32_t id);  // valid UTF-8; bytes that can never become valid are U+FFFD
  std::string finish();          // what was held back, as U+FFFD

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
};

}  // namespace stretto
