// Reads tokenizer.json, and vocab.json + merges.txt.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/strict_json.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

namespace stretto {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;

// Ids by the spelling of the file, which has one printable character per byte.
using Spelled = std::unordered_map<std::string, int32_t>;

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  [[noreturn]] void fail(const std::string& problem, const std::string& fix) const {
    throw Error(ExitCode::bad_data, fmt::format("{}: {}", name_, problem), fix);
  }
  [[noreturn]] void unsupported(const std::string& what) const {
    fail(what + " is not supported", "use a byte-level BPE tokenizer (GPT-2, NeoX, Llama-3 style)");
  }

  const Json& member(const Json& object, const char* key) const {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (found == object.end())
      fail(fmt::format("no \"{}\"", key), "give a complete tokenizer file");
    return *found;
  }
  static bool absent(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null();
  }
  bool flag(const Json& object, const char* key, bool otherwise) const {
    if (absent(object, key)) return otherwise;
    if (!object.at(key).is_boolean()) {
      fail(fmt::format("\"{}\" is not a boolean", key), "correct it");
    }
    return object.at(key).get<bool>();
  }
  std::string text(const Json& object, const char* key) const {
    const Json& value = member(object, key);
    if (!value.is_string()) fail(fmt::format("\"{}\" is not a string", key), "correct the file");
    return value.get<std::string>();
  }
  int32_t id(const Json& value, size_t limit) const {
    // Memory must be proportional to the file, so ids may leave some gaps, but not any.
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<uint64_t>() >= limit) {
      fail(fmt::format("token id {} (with {} allowed)", value.dump(), limit),
           "ids must count up from 0");
    }
    return value.get<int32_t>();
  }

  void vocab(const Json& entries, TokenizerSpec& spec, Spelled& spelled) const {
    if (!entries.is_object()) fail("the vocabulary is not an object", "give token: id pairs");
    std::string bytes;
    for (const auto& [token, value] : entries.items()) {
      const auto index = static_cast<size_t>(id(value, 4 * entries.size() + 1024));
      if (token.empty()) fail("an empty token", "remove it");
      if (index >= spec.tokens.size()) spec.tokens.resize(index + 1);
      if (!spec.tokens[index].empty())
        fail(fmt::format("id {} is used twice", index), "correct it");
      spec.tokens[index] = unspell_bytes(token, bytes) ? bytes : token;
      spelled.emplace(token, static_cast<int32_t>(index));
    }
  }

  void merge(std::string_view left, std::string_view right, TokenizerSpec& spec,
             const Spelled& spelled) const {
    const auto look_up = [&](const std::string& token) {
      const auto found = spelled.find(token);
      if (found == spelled.end()) {
        fail(fmt::format("merge {}: \"{}\" is not in the vocabulary", spec.merges.size(), token),
             "vocabulary and merges must belong together");
      }
      return found->second;
    };
    const std::string a(left), b(right);
    spec.merges.push_back({look_up(a), look_up(b), look_up(a + b)});
  }

  void merge_line(std::string_view line, TokenizerSpec& spec, const Spelled& spelled) const {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      fail(fmt::format("merge {} is not two tokens with a space between", spec.merges.size()),
           "correct the file");
    }
    merge(line.substr(0, space), line.substr(space + 1), spec, spelled);
  }

  Spelled model(const Json& model, TokenizerSpec& spec) const {
    if (!absent(model, "type") && text(model, "type") != "BPE") {
      unsupported("model type " + text(model, "type"));
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!absent(model, key) && !text(model, key).empty()) unsupported(key);
    }
    if (!absent(model, "dropout")) unsupported("dropout");
    if (flag(model, "byte_fallback", false)) unsupported("byte_fallback");
    spec.ignore_merges = flag(model, "ignore_merges", false);
    Spelled spelled;
    vocab(member(model, "vocab"), spec, spelled);
    const Json& merges = member(model, "merges");
    if (!merges.is_array()) fail("\"merges\" is not a list", "correct the file");
    for (const Json& entry : merges) {
      if (entry.is_string()) {
        merge_line(entry.get_ref<const std::string&>(), spec, spelled);
      } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
                 entry[1].is_string()) {
        merge(entry[0].get_ref<const std::string&>(), entry[1].get_ref<const std::string&>(), spec,
              spelled);
      } else {
        fail(fmt::format("merge {} is not a pair", spec.merges.size()), "correct the file");
      }
    }
    return spelled;
  }

  void added(const Json& list, const Spelled& spelled, TokenizerSpec& spec) const {
    if (!list.is_array()) fail("\"added_tokens\" is not a list", "correct the file");
    const size_t limit = 4 * (spec.tokens.size() + list.size()) + 1024;
    for (const Json& entry : list) {
      AddedToken token{text(entry, "content"), id(member(entry, "id"), limit),
                       flag(entry, "special", false), flag(entry, "normalized", false)};
      for (const char* key : {"single_word", "lstrip", "rstrip"}) {
        if (flag(entry, key, false)) unsupported(fmt::format("\"{}\" of added tokens", key));
      }
      place_added(token, spelled, spec);
      spec.added.push_back(std::move(token));
    }
  }

  // The vocabulary may contain an added token, too, in plain text, not spelled byte by byte. Then
  // it must have the same id in both places, because readers use either.
  void place_added(const AddedToken& token, const Spelled& spelled, TokenizerSpec& spec) const {
    const auto found = spelled.find(token.text);
    if (found != spelled.end() && found->second != token.id) {
      fail(fmt::format("added token \"{}\" has id {}, in the vocabulary it has {}",
                       printable(token.text), token.id, found->second),
           "give it one id");
    }
    // A token that spells itself differently cannot be an ordinary token, which merges could make.
    if (found == spelled.end() || spell_bytes(token.text) == token.text) return;
    std::string& there = spec.tokens[static_cast<size_t>(token.id)];
    if (there.size() > 1) there.clear();
  }

  void normalizer(const Json& value, TokenizerSpec& spec) const {
    const std::string type = text(value, "type");
    if (type == "NFC") {
      spec.nfc = true;
    } else if (type == "Sequence") {
      for (const Json& part : member(value, "normalizers")) normalizer(part, spec);
    } else {
      unsupported("normalizer " + type);
    }
  }

  // The parts are applied one after the other. The byte-level one spells the text byte by byte and
  // must be the last.
  void pre_tokenizer(const Json& value, TokenizerSpec& spec) const {
    bool bytes = false;
    pre_tokenizer_part(value, spec, bytes);
    if (!bytes) unsupported("a pre-tokenizer without ByteLevel");
  }

  void pre_tokenizer_part(const Json& value, TokenizerSpec& spec, bool& bytes) const {
    const std::string type = text(value, "type");
    if (type != "Sequence" && bytes) unsupported("pre-tokenizer " + type + " behind ByteLevel");
    if (type == "ByteLevel") {
      bytes = true;
      spec.prefix_space = flag(value, "add_prefix_space", true);
      if (spec.prefix_space && spec.split) unsupported("add_prefix_space behind a split");
      if (flag(value, "use_regex", true)) {
        if (spec.split) unsupported("splitting twice");
        spec.pattern = kGpt2Pattern;
        spec.split = true;
      }
    } else if (type == "Sequence") {
      for (const Json& part : member(value, "pretokenizers")) pre_tokenizer_part(part, spec, bytes);
    } else if (type == "Split") {
      if (spec.split) unsupported("splitting twice");
      if (text(value, "behavior") != "Isolated" || flag(value, "invert", false)) {
        unsupported("a split that is not isolated");
      }
      spec.pattern = text(member(value, "pattern"), "Regex");
      if (const auto part = read_otherwise(spec.pattern); !part.empty()) {
        unsupported(fmt::format("\"{}\" in a split pattern", printable(part)));
      }
      spec.split = true;
    } else {
      unsupported("pre-tokenizer " + type);
    }
  }

 private:
  std::string name_;
};

}  // namespace

Tokenizer tokenizer_from_json(std::string_view text, const std::string& name) {
  const Reader reader(name);
  const Json root = parse_json(text, name);
  TokenizerSpec spec;
  spec.split = false;
  const Spelled spelled = reader.model(reader.member(root, "model"), spec);
  if (!Reader::absent(root, "added_tokens")) reader.added(root.at("added_tokens"), spelled, spec);
  if (!Reader::absent(root, "normalizer")) reader.normalizer(root.at("normalizer"), spec);
  reader.pre_tokenizer(reader.member(root, "pre_tokenizer"), spec);
  return {std::move(spec), name};
}

Tokenizer tokenizer_from_vocab(std::string_view vocab_json, std::string_view merges_txt,
                               const std::string& name) {
  const Reader reader(name);
  TokenizerSpec spec;
  Spelled spelled;
  reader.vocab(parse_json(vocab_json, name), spec, spelled);
  for (size_t begin = 0; begin < merges_txt.size();) {
    const size_t end = std::min(merges_txt.find('\n', begin), merges_txt.size());
    std::string_view line = merges_txt.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool header = begin == 0 && line.starts_with("#version");
    if (!header && !line.empty()) reader.merge_line(line, spec, spelled);
    begin = end + 1;
  }
  // These two files do not tell which tokens are special. This one is in every GPT-2 vocabulary.
  if (const auto found = spelled.find("<|endoftext|>"); found != spelled.end()) {
    spec.added.push_back({"<|endoftext|>", found->second, true, false});
  }
  return {std::move(spec), name};
}

Tokenizer load_tokenizer(const std::string& path, Fs& fs) {
  const auto info = fs.info(path);
  if (info && info->kind == FileKind::directory) {
    const std::string json = join_path(path, "tokenizer.json");
    return load_tokenizer(fs.info(json) ? json : join_path(path, "vocab.json"), fs);
  }
  const std::string text = read_file(fs, path, kMaxFileBytes);
  if (!path.ends_with("vocab.json")) return tokenizer_from_json(text, path);
  const std::string merges = path.substr(0, path.size() - 10) + "merges.txt";
  return tokenizer_from_vocab(text, read_file(fs, merges, kMaxFileBytes), path);
}

}  // namespace stretto
