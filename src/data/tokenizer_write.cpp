// Writes tokenizer.json, and vocab.json + merges.txt.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/strict_json.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

namespace stretto {
namespace {

using Json = nlohmann::json;

Json byte_level(bool prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json pre_tokenizer_of(const TokenizerSpec& spec) {
  if (!spec.split || spec.pattern == kGpt2Pattern) {
    return byte_level(spec.prefix_space, spec.split);
  }
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", spec.pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"},
          {"pretokenizers", Json::array({split, byte_level(spec.prefix_space, false)})}};
}

enum class Added { every, special };

// Writes tokens in the order of ids, for people, and without building a tree, because vocabularies
// are long. Added tokens are included, in plain text, not spelled byte by byte: vocab.json has no
// other place for special ones, and readers of tokenizer.json take all ids from here.
std::string vocab_object(const Tokenizer& tokenizer, Added which) {
  const TokenizerSpec& spec = tokenizer.spec();
  std::vector<std::string> spelled(static_cast<size_t>(tokenizer.vocab_size()));
  for (size_t id = 0; id < spec.tokens.size(); ++id) spelled[id] = spell_bytes(spec.tokens[id]);
  for (const AddedToken& token : spec.added) {
    std::string& there = spelled[static_cast<size_t>(token.id)];
    if (there.empty() && (which == Added::every || token.special)) there = token.text;
  }
  std::string out = "{";
  for (size_t id = 0; id < spelled.size(); ++id) {
    if (spelled[id].empty()) continue;
    out += fmt::format("{}\n{}:{}", out.size() > 1 ? "," : "", json_quote(spelled[id]), id);
  }
  return out + "\n}";
}

std::string merge_text(const Tokenizer& tokenizer, const Merge& merge) {
  return spell_bytes(tokenizer.bytes_of(merge.left)) + " " +
         spell_bytes(tokenizer.bytes_of(merge.right));
}

}  // namespace

std::string tokenizer_to_json(const Tokenizer& tokenizer) {
  const TokenizerSpec& spec = tokenizer.spec();
  Json added = Json::array();
  for (const AddedToken& token : spec.added) {
    added.push_back({{"id", token.id},
                     {"content", token.text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  }
  std::string merges;
  for (const Merge& merge : spec.merges) {
    merges +=
        fmt::format("{}\n{}", merges.empty() ? "" : ",", json_quote(merge_text(tokenizer, merge)));
  }
  return fmt::format(
      "{{\n\"version\":\"1.0\",\n\"truncation\":null,\n\"padding\":null,\n\"added_tokens\":{},\n"
      "\"normalizer\":{},\n\"pre_tokenizer\":{},\n\"post_processor\":{},\n\"decoder\":{},\n"
      "\"model\":{{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
      "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
      "\"byte_fallback\":false,\"ignore_merges\":{},\n\"vocab\":{},\n\"merges\":[{}\n]}}\n}}\n",
      added.dump(), spec.nfc ? R"({"type":"NFC"})" : "null", pre_tokenizer_of(spec).dump(),
      byte_level(spec.prefix_space, true).dump(), byte_level(false, true).dump(),
      spec.ignore_merges, vocab_object(tokenizer, Added::every), merges);
}

std::string vocab_to_json(const Tokenizer& tokenizer) {
  return vocab_object(tokenizer, Added::special);
}

std::string merges_to_text(const Tokenizer& tokenizer) {
  std::string out = "#version: 0.2\n";
  for (const Merge& merge : tokenizer.spec().merges) out += merge_text(tokenizer, merge) + "\n";
  return out;
}

}  // namespace stretto
