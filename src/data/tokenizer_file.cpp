// tokenizer.json and vocab.json + merges.txt, both ways.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/strict_json.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

namespace stretto {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;

// Ids by the spelling used in the file: one printable character per byte.
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
    if (!object.at(key).is_boolean()) fail(fmt::format("\"{}\" is no boolean", key), "correct it");
    return object.at(key).get<bool>();
  }
  std::string text(const Json& object, const char* key) const {
    const Json& value = member(object, key);
    if (!value.is_string()) fail(fmt::format("\"{}\" is no string", key), "correct the file");
    return value.get<std::string>();
  }
  int32_t id(const Json& value, size_t limit) const {
    // Memory stays proportional to the file: ids may leave some holes, not arbitrary ones.
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<uint64_t>() >= limit) {
      fail(fmt::format("token id {} (with {} allowed)", value.dump(), limit),
           "ids must count up from 0");
    }
    return value.get<int32_t>();
  }

  void vocab(const Json& entries, TokenizerSpec& spec, Spelled& spelled) const {
    if (!entries.is_object()) fail("the vocabulary is no object", "give token: id pairs");
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

  void model(const Json& model, TokenizerSpec& spec) const {
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
    if (!merges.is_array()) fail("\"merges\" is no list", "correct the file");
    for (const Json& entry : merges) {
      if (entry.is_string()) {
        merge_line(entry.get_ref<const std::string&>(), spec, spelled);
      } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
                 entry[1].is_string()) {
        merge(entry[0].get_ref<const std::string&>(), entry[1].get_ref<const std::string&>(), spec,
              spelled);
      } else {
        fail(fmt::format("merge {} is no pair", spec.merges.size()), "correct the file");
      }
    }
  }

  void added(const Json& list, TokenizerSpec& spec) const {
    if (!list.is_array()) fail("\"added_tokens\" is no list", "correct the file");
    const size_t limit = 4 * (spec.tokens.size() + list.size()) + 1024;
    for (const Json& entry : list) {
      AddedToken token{text(entry, "content"), id(member(entry, "id"), limit),
                       flag(entry, "special", false), flag(entry, "normalized", false)};
      for (const char* key : {"single_word", "lstrip", "rstrip"}) {
        if (flag(entry, key, false)) unsupported(fmt::format("\"{}\" of added tokens", key));
      }
      spec.added.push_back(std::move(token));
    }
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

  void pre_tokenizer(const Json& value, TokenizerSpec& spec) const {
    const std::string type = text(value, "type");
    if (type == "ByteLevel") {
      spec.prefix_space = flag(value, "add_prefix_space", true);
      if (flag(value, "use_regex", true)) {
        if (spec.split) unsupported("splitting twice");
        spec.pattern = kGpt2Pattern;
        spec.split = true;
      }
    } else if (type == "Sequence") {
      for (const Json& part : member(value, "pretokenizers")) pre_tokenizer(part, spec);
    } else if (type == "Split") {
      if (spec.split) unsupported("splitting twice");
      if (text(value, "behavior") != "Isolated" || flag(value, "invert", false)) {
        unsupported("a split that is not isolated");
      }
      spec.pattern = text(member(value, "pattern"), "Regex");
      spec.split = true;
    } else {
      unsupported("pre-tokenizer " + type);
    }
  }

 private:
  std::string name_;
};

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

// In order of ids and without a tree: a vocabulary is long, and people read these files.
// vocab.json has no other place for special tokens, so there they join.
std::string vocab_object(const Tokenizer& tokenizer, bool with_special) {
  std::string out = "{";
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const bool ordinary = static_cast<size_t>(id) < tokenizer.spec().tokens.size() &&
                          !tokenizer.spec().tokens[static_cast<size_t>(id)].empty();
    if (tokenizer.bytes_of(id).empty() ||
        (!ordinary && !(with_special && tokenizer.is_special(id))))
      continue;
    const std::string spelled =
        ordinary ? spell_bytes(tokenizer.bytes_of(id)) : std::string(tokenizer.bytes_of(id));
    out += fmt::format("{}\n{}:{}", out.size() > 1 ? "," : "", json_quote(spelled), id);
  }
  return out + "\n}";
}

std::string merge_text(const Tokenizer& tokenizer, const Merge& merge) {
  return spell_bytes(tokenizer.bytes_of(merge.left)) + " " +
         spell_bytes(tokenizer.bytes_of(merge.right));
}

}  // namespace

Tokenizer tokenizer_from_json(std::string_view text, const std::string& name) {
  const Reader reader(name);
  const Json root = parse_json(text, name);
  TokenizerSpec spec;
  spec.split = false;
  reader.model(reader.member(root, "model"), spec);
  if (!Reader::absent(root, "added_tokens")) reader.added(root.at("added_tokens"), spec);
  if (!Reader::absent(root, "normalizer")) reader.normalizer(root.at("normalizer"), spec);
  // Without a byte-level pre-tokenizer the vocabulary would not be in bytes.
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
  // These two files cannot say which tokens are special; this one is in every GPT-2 vocabulary.
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
      spec.ignore_merges, vocab_object(tokenizer, false), merges);
}

std::string vocab_to_json(const Tokenizer& tokenizer) { return vocab_object(tokenizer, true); }

std::string merges_to_text(const Tokenizer& tokenizer) {
  std::string out = "#version: 0.2\n";
  for (const Merge& merge : tokenizer.spec().merges) out += merge_text(tokenizer, merge) + "\n";
  return out;
}

}  // namespace stretto
