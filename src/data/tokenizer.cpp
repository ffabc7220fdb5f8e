#include "data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/log.h"
#include "base/utf8.h"
#include "data/unicode.h"

namespace stretto {
namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";  // U+FFFD

Error bad_tokenizer(const std::string& name, const std::string& problem) {
  return {ExitCode::bad_data, fmt::format("{}: {}", name, problem),
          "use a byte-level BPE tokenizer, or train one: stretto tokenizer train"};
}

// Moves the complete characters of `pending` to the result; keeps an incomplete one.
std::string take_text(std::string& pending) {
  const size_t keep = incomplete_utf8_suffix(pending);
  std::string_view rest(pending.data(), pending.size() - keep);
  std::string out;
  while (!rest.empty()) {
    const size_t valid = valid_utf8_prefix(rest);
    out.append(rest.substr(0, valid));
    rest.remove_prefix(valid);
    if (!rest.empty()) {
      out += kReplacement;
      rest.remove_prefix(1);
    }
  }
  pending.erase(0, pending.size() - keep);
  return out;
}

// The specification without details that do not change any id.
TokenizerSpec meaning_of(const Tokenizer& tokenizer) {
  TokenizerSpec spec = tokenizer.spec();
  if (!spec.split) spec.pattern.clear();
  std::sort(spec.added.begin(), spec.added.end(),
            [](const AddedToken& x, const AddedToken& y) { return x.id < y.id; });
  // Added tokens are found before pieces are looked at, and a piece never becomes one. So it does
  // not matter whether an added token is in the vocabulary as well.
  for (const AddedToken& token : spec.added) {
    const auto id = static_cast<size_t>(token.id);
    if (id < spec.tokens.size() && spec.tokens[id] == token.text) spec.tokens[id].clear();
  }
  while (!spec.tokens.empty() && spec.tokens.back().empty()) spec.tokens.pop_back();
  // Without normalization, both kinds of tokens are found in the same pass.
  const auto late = [](const AddedToken& token) { return token.normalized; };
  if (!spec.nfc && std::all_of(spec.added.begin(), spec.added.end(), late)) {
    for (AddedToken& token : spec.added) token.normalized = false;
  }
  return spec;
}

}  // namespace

void require_vocab(const Tokenizer& tokenizer, int64_t vocab, const std::string& name) {
  if (tokenizer.vocab_size() <= vocab) return;
  throw Error(ExitCode::bad_config,
              fmt::format("{} has {} tokens, the model {}", name, tokenizer.vocab_size(), vocab),
              "give the tokenizer that the model was trained with (--tokenizer)");
}

bool same_tokenizer(const Tokenizer& a, const Tokenizer& b) {
  return meaning_of(a) == meaning_of(b);
}

Tokenizer::Tokenizer(TokenizerSpec spec, const std::string& name) : spec_(std::move(spec)) {
  index_tokens(name);
  index_added(name);
  index_merges(name);
  splitter_ = spec_.split ? make_splitter(spec_.pattern) : make_no_splitter();
}

void Tokenizer::index_tokens(const std::string& name) {
  byte_ids_.fill(-1);
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    const std::string& bytes = spec_.tokens[id];
    if (bytes.empty()) continue;
    if (!ids_.emplace(bytes, static_cast<int32_t>(id)).second) {
      throw bad_tokenizer(name, fmt::format("token \"{}\" appears twice", printable(bytes)));
    }
    if (bytes.size() == 1) {
      byte_ids_[static_cast<unsigned char>(bytes[0])] = static_cast<int32_t>(id);
    }
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    if (byte_ids_[byte] < 0) {
      throw bad_tokenizer(name, fmt::format("no token for the single byte 0x{:02x}", byte));
    }
  }
}

// Each id must be one token and each token have one id. That includes readers that find added
// tokens in the vocabulary, where ordinary tokens are spelled byte by byte.
void Tokenizer::index_added(const std::string& name) {
  bytes_ = spec_.tokens;
  std::unordered_map<std::string_view, int32_t> seen;
  std::string spelled;
  for (const AddedToken& token : spec_.added) {
    const auto refuse = [&](const std::string& why) {
      return bad_tokenizer(name, fmt::format("added token \"{}\" with id {}{}",
                                             printable(token.text), token.id, why));
    };
    if (token.text.empty() || token.id < 0) throw refuse("");
    const auto index = static_cast<size_t>(token.id);
    if (index >= bytes_.size()) bytes_.resize(index + 1);
    if (!bytes_[index].empty() && bytes_[index] != token.text) {
      throw refuse(", which another token has");
    }
    bytes_[index] = token.text;
    if (seen.emplace(token.text, token.id).first->second != token.id) {
      throw refuse(fmt::format(" and with id {}", seen.at(token.text)));
    }
    const auto same = unspell_bytes(token.text, spelled) ? ids_.find(spelled) : ids_.end();
    if (same != ids_.end() && same->second != token.id) {
      throw refuse(fmt::format(", but files spell token {} so", same->second));
    }
  }
  for (const AddedToken& token : spec_.added) {  // a piece of text never becomes an added token
    const auto found = ids_.find(token.text);
    if (found != ids_.end() && found->second == token.id) ids_.erase(found);
  }
}

void Tokenizer::index_merges(const std::string& name) {
  const auto known = [&](int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < spec_.tokens.size() &&
           !spec_.tokens[static_cast<size_t>(id)].empty();
  };
  merge_table_.assign(std::bit_ceil(spec_.merges.size() * 2 + 2), {});
  merge_mask_ = merge_table_.size() - 1;
  for (size_t rank = 0; rank < spec_.merges.size(); ++rank) {
    const int32_t left = spec_.merges[rank].left, right = spec_.merges[rank].right;
    const int32_t result = spec_.merges[rank].result;
    if (!known(left) || !known(right) || !known(result)) {
      throw bad_tokenizer(name,
                          fmt::format("merge {} of ids {}, {} to {}", rank, left, right, result));
    }
    if (bytes_of(result) != std::string(bytes_of(left)).append(bytes_of(right))) {
      throw bad_tokenizer(name, fmt::format("merge {} does not give its two parts", rank));
    }
    const auto taken = [&](const MergeSlot& slot) {
      return slot.left >= 0 && (slot.left != left || slot.right != right);
    };
    size_t at = slot_of(left, right);
    while (taken(merge_table_[at])) at = (at + 1) & merge_mask_;
    // If a pair has two entries the later one counts, as in other readers of these files.
    merge_table_[at] = {left, right, static_cast<uint32_t>(rank), result};
  }
}

std::string_view Tokenizer::bytes_of(int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw Error(ExitCode::bad_data,
                fmt::format("token id {} is outside the vocabulary of {}", id, vocab_size()),
                "use the tokenizer the ids were made with");
  }
  return bytes_[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::find(std::string_view bytes) const {
  const auto found = ids_.find(bytes);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<int32_t> Tokenizer::find_added(std::string_view text) const {
  for (const AddedToken& token : spec_.added) {
    if (token.text == text) return token.id;
  }
  return std::nullopt;
}

bool Tokenizer::is_special(int32_t id) const {
  return std::any_of(spec_.added.begin(), spec_.added.end(),
                     [id](const AddedToken& token) { return token.id == id && token.special; });
}

std::optional<int32_t> Tokenizer::end_of_document() const {
  if (const auto id = find_added("<|endoftext|>")) return id;
  return find_added("<|end_of_text|>");
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string out;
  for (const int32_t id : ids) {
    const std::string_view bytes = bytes_of(id);
    if (!skip_special || !is_special(id)) out += bytes;
  }
  return out;
}

Tokenizer byte_tokenizer() {
  TokenizerSpec spec;
  spec.split = false;
  for (int byte = 0; byte < 256; ++byte) spec.tokens.emplace_back(1, static_cast<char>(byte));
  return {std::move(spec), "bytes"};
}

std::string StreamDecoder::push(int32_t id) {
  pending_ += tokenizer_.bytes_of(id);
  return take_text(pending_);
}

std::string StreamDecoder::finish() {
  const bool waiting = !pending_.empty();
  pending_.clear();
  return waiting ? kReplacement : "";
}

}  // namespace stretto
