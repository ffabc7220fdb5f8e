#include "data/tokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/strict_json.h"
#include "base/utf8.h"
#include "data/encoder.h"
#include "data/trainer.h"
#include "data/unicode.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

std::string golden(const std::string& name) {
  return read_file(posix_fs(), STRETTO_SOURCE_DIR "/tests/goldens/tokenizer/" + name, 1 << 20);
}

Tokenizer golden_tokenizer(const std::string& name) {
  return tokenizer_from_json(golden(name + ".json"), name);
}

Ids encoded(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  Encoder(tokenizer).encode(text, ids);
  return ids;
}

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

class TokenizerGolden : public testing::TestWithParam<const char*> {};

// The ids come from `tokenizers`, checked against tiktoken: tools/make_tokenizer_goldens.py.
TEST_P(TokenizerGolden, IdsAreIdentical) {
  const Tokenizer tokenizer = golden_tokenizer(GetParam());
  Encoder encoder(tokenizer);
  std::istringstream lines(golden("cases.jsonl"));
  int cases = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    if (!row.contains(GetParam())) continue;
    const std::string text = from_hex(row["hex"]);
    for (int pass = 0; pass < 2; ++pass) {  // the second time from the cache
      Ids ids;
      encoder.encode(text, ids);
      EXPECT_EQ(ids, row[GetParam()].get<Ids>()) << row["hex"];
    }
    if (!tokenizer.spec().nfc) {
      EXPECT_EQ(tokenizer.decode(encoded(tokenizer, text)), text);
    }
    ++cases;
  }
  EXPECT_GE(cases, 260);
}

TEST_P(TokenizerGolden, SurvivesBothFileForms) {
  const Tokenizer tokenizer = golden_tokenizer(GetParam());
  const Tokenizer again = tokenizer_from_json(tokenizer_to_json(tokenizer), "again");
  EXPECT_EQ(tokenizer_to_json(again), tokenizer_to_json(tokenizer));
  const std::string text = "It's 12345 <|endoftext|>  naïve\n\n\tx";
  EXPECT_EQ(encoded(again, text), encoded(tokenizer, text));
  const Tokenizer pair =
      tokenizer_from_vocab(vocab_to_json(tokenizer), merges_to_text(tokenizer), "pair");
  EXPECT_EQ(pair.vocab_size(), tokenizer.vocab_size());
  EXPECT_EQ(merges_to_text(pair), merges_to_text(tokenizer));
  EXPECT_EQ(pair.end_of_document(), tokenizer.end_of_document());
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerGolden, testing::Values("gpt2", "neox", "llama3"),
                         [](const auto& test) { return std::string(test.param); });

// Whether <|endoftext|> is among the ordinary tokens, too, as in every vocab.json, changes no id.
TEST(Tokenizer, IsTheSameByWhatItDoesNotByItsFiles) {
  const Tokenizer gpt2 = golden_tokenizer("gpt2");
  TokenizerSpec spec = gpt2.spec();
  ASSERT_EQ(spec.tokens.at(0), spec.added.at(0).text);
  spec.tokens[0].clear();
  const Tokenizer beside(spec, "beside");
  const Tokenizer pair =
      tokenizer_from_vocab(vocab_to_json(beside), merges_to_text(beside), "pair");
  EXPECT_FALSE(pair.spec() == beside.spec());
  EXPECT_TRUE(same_tokenizer(pair, beside));
  EXPECT_TRUE(same_tokenizer(gpt2, beside));
  EXPECT_FALSE(same_tokenizer(gpt2, golden_tokenizer("neox")));
  EXPECT_FALSE(same_tokenizer(gpt2, byte_tokenizer()));
  const auto changed = [&](const auto& change) {
    TokenizerSpec other = gpt2.spec();
    change(other);
    return same_tokenizer(gpt2, Tokenizer(std::move(other), "changed"));
  };
  EXPECT_FALSE(changed([](TokenizerSpec& s) { s.merges.pop_back(); }));
  EXPECT_FALSE(changed([](TokenizerSpec& s) { std::swap(s.merges[0], s.merges[1]); }));
  EXPECT_FALSE(changed([](TokenizerSpec& s) { s.tokens.emplace_back("one more"); }));
  EXPECT_FALSE(changed([](TokenizerSpec& s) { s.added.clear(); }));
  EXPECT_FALSE(changed([](TokenizerSpec& s) { s.tokens[0] = s.added[0].text = "<|end|>"; }));
  EXPECT_FALSE(changed([](TokenizerSpec& s) { s.prefix_space = true; }));
  EXPECT_FALSE(changed([](TokenizerSpec& s) { s.nfc = true; }));
  EXPECT_TRUE(changed([](TokenizerSpec& s) { s.added[0].normalized ^= true; }));
}

// Other readers number an added token by its place in the vocabulary, and look at its "id" only to
// warn: one that stands beside gets the number of tokens there, which is that of an ordinary token.
TEST(Tokenizer, AddedTokensHaveTheirIdInTheVocabularyThatIsWritten) {
  PieceCounts counts;
  counts.add(*make_splitter(kGpt2Pattern), "one two one two");
  TrainTokenizerOptions options;
  options.vocab_size = 262;
  options.special = {"<|endoftext|>", "<|größe|>"};
  TokenizerSpec spec = train_tokenizer(counts, options).spec();
  spec.added.push_back({"  ", 300, false, true});  // behind a gap, and spelled otherwise in bytes
  const Tokenizer tokenizer(spec, "t");
  const Json written = Json::parse(tokenizer_to_json(tokenizer));
  EXPECT_EQ(written["model"]["vocab"]["<|endoftext|>"], 0);
  EXPECT_EQ(written["model"]["vocab"]["<|größe|>"], 1);
  EXPECT_EQ(written["model"]["vocab"]["  "], 300);
  const Tokenizer again = tokenizer_from_json(written.dump(), "again");
  EXPECT_TRUE(same_tokenizer(again, tokenizer));
  EXPECT_EQ(Json::parse(tokenizer_to_json(again)), written);
  EXPECT_EQ(encoded(again, "one<|größe|>  "), encoded(tokenizer, "one<|größe|>  "));
}

// Files that say it themselves: before this version, added tokens were left out of the vocabulary.
TEST(Tokenizer, ReadsAddedTokensBesideTheVocabulary) {
  Json older = Json::parse(golden("gpt2.json"));
  older["model"]["vocab"].erase("<|endoftext|>");
  const Tokenizer tokenizer = tokenizer_from_json(older.dump(), "older");
  EXPECT_EQ(tokenizer.end_of_document(), 0);
  EXPECT_TRUE(same_tokenizer(tokenizer, golden_tokenizer("gpt2")));
  // Special tokens that are not ASCII were spelled like bytes there.
  older["added_tokens"][0]["content"] = "<|größe|>";
  older["model"]["vocab"][spell_bytes("<|größe|>")] = 0;
  EXPECT_EQ(encoded(tokenizer_from_json(older.dump(), "older"), "<|größe|>"), Ids{0});
}

// A run compares its copy of a tokenizer with the file it came from: both must be one tokenizer.
TEST(Tokenizer, TakesNoWholePieceForAnAddedToken) {
  TokenizerSpec spec = golden_tokenizer("gpt2").spec();
  spec.ignore_merges = true;
  spec.tokens.emplace_back("wholly");
  spec.added.push_back({"stop", static_cast<int32_t>(spec.tokens.size()), true, false});
  const Tokenizer beside(spec, "beside");
  const Tokenizer within = tokenizer_from_json(tokenizer_to_json(beside), "within");
  EXPECT_TRUE(same_tokenizer(beside, within));
  for (const Tokenizer* tokenizer : {&beside, &within}) {
    Ids ids;
    Encoder(*tokenizer).encode_ordinary("stop", ids);
    EXPECT_GT(ids.size(), 1u);
    EXPECT_EQ(encoded(*tokenizer, "stop"), Ids{tokenizer->find_added("stop").value()});
    EXPECT_EQ(encoded(*tokenizer, "wholly").size(), 1u);
  }
}

TEST(Tokenizer, TrainingGivesTheSameMergesAsTokenizers) {
  const Tokenizer expected = golden_tokenizer("gpt2");
  PieceCounts counts;
  const auto splitter = make_splitter(kGpt2Pattern);
  for (const Json& text : Json::parse(golden("training.json"))) {
    counts.add(*splitter, text.get<std::string>());
  }
  TrainTokenizerOptions options;
  options.vocab_size = 560;
  const Tokenizer trained = train_tokenizer(counts, options);
  EXPECT_EQ(merges_to_text(trained), merges_to_text(expected));
  EXPECT_EQ(vocab_to_json(trained), vocab_to_json(expected));
  options.vocab_size = 256;
  EXPECT_ERROR(train_tokenizer(counts, options), ExitCode::usage, "256");
}

// A file has one place for a spelling.
TEST(Tokenizer, ASpecialTokenIsNoOrdinaryOneToo) {
  PieceCounts counts;
  counts.add(*make_splitter(kGpt2Pattern), "stop stops stopped stop stops");
  TrainTokenizerOptions options;
  options.vocab_size = 300;
  for (const std::vector<std::string>& bad : std::vector<std::vector<std::string>>{
           {""}, {"a"}, {"é"}, {"<|a|>", "<|a|>"}, {"<|\xff|>"}}) {
    options.special = bad;
    EXPECT_ERROR(train_tokenizer(counts, options), ExitCode::usage, "special token");
  }
  options.special = {"sto", "op"};
  const Tokenizer tokenizer = train_tokenizer(counts, options);
  EXPECT_FALSE(tokenizer.find("sto") || tokenizer.find("op"));
  EXPECT_TRUE(tokenizer.find("st"));
  EXPECT_TRUE(
      same_tokenizer(tokenizer_from_json(tokenizer_to_json(tokenizer), "again"), tokenizer));
}

TEST(Tokenizer, ThreadsDoNotChangeTheCounts) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 300000; ++i) text += fmt::format("word{} and\n", i % 997);
  const std::string path = dir.write("c.txt", text);
  const auto splitter = make_splitter(kGpt2Pattern);
  PieceCounts whole;
  whole.add(*splitter, text);
  for (const int threads : {1, 3}) {
    CorpusReader corpus({{path}});
    EXPECT_EQ(count_pieces(corpus, *splitter, threads).map(), whole.map()) << threads;
  }
}

TEST(Tokenizer, CountingEndsWhereItFails) {
  const TempDir dir;
  std::vector<std::string> paths;
  for (int i = 0; i < 400; ++i) paths.push_back(dir.write(fmt::format("{}.txt", i), "a text"));
  CorpusReader corpus({paths});
  std::atomic<int> blocks{0};
  const auto progress = [&](int64_t) {
    if (blocks++ == 0) throw Error(ExitCode::bad_data, "line 1 is no JSON", "correct it");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the others are at work meanwhile
  };
  EXPECT_ERROR(count_pieces(corpus, *make_splitter(kGpt2Pattern), 2, progress), ExitCode::bad_data,
               "line 1");
  EXPECT_LT(blocks, 400);
}

RC_GTEST_PROP(Encoder, AnyBytesComeBack, (const std::string& text)) {
  static const Tokenizer gpt2 = golden_tokenizer("gpt2"), llama3 = golden_tokenizer("llama3");
  for (const Tokenizer* tokenizer : {&gpt2, &llama3}) {
    RC_ASSERT(tokenizer->decode(encoded(*tokenizer, text)) == text);
  }
}

// The space is for the beginning of a text and for what follows an added token.
TEST(Encoder, NoSpaceComesIntoAWordWithBytesThatAreNoText) {
  TokenizerSpec spec = golden_tokenizer("gpt2").spec();
  spec.prefix_space = true;
  const Tokenizer tokenizer(spec, "t");
  const std::pair<const char*, const char*> cases[] = {
      {"caf\xe9s", " caf\xe9s"},
      {"\xe9s", "\xe9s"},
      {"a\xff<|endoftext|>b", " a\xff<|endoftext|> b"}};
  for (const auto& [text, back] : cases)
    EXPECT_EQ(tokenizer.decode(encoded(tokenizer, text)), back);
}

TEST(Encoder, OrdinaryTextHasNoSpecialTokens) {
  const Tokenizer tokenizer = golden_tokenizer("gpt2");
  Ids ids;
  Encoder(tokenizer).encode_ordinary("a<|endoftext|>b", ids);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer.end_of_document()), 0);
  EXPECT_EQ(tokenizer.decode(ids), "a<|endoftext|>b");
  EXPECT_EQ(tokenizer.decode(encoded(tokenizer, "a<|endoftext|>b"), true), "ab");
}

// As `tokenizers` does it: both spellings of the text find either spelling of the token.
TEST(Encoder, NormalizedTokensAreFoundAsTheyLookInNormalizedText) {
  TokenizerSpec spec = golden_tokenizer("gpt2").spec();
  spec.nfc = true;
  spec.added.push_back({"<|e\u0301|>", 600, false, true});
  const Tokenizer tokenizer(spec, "t");
  EXPECT_EQ(encoded(tokenizer, "<|e\u0301|>"), Ids{600});
  EXPECT_EQ(encoded(tokenizer, "<|\u00e9|>"), Ids{600});
}

TEST(Encoder, AMegabyteWithoutSpacesIsNoProblem) {
  const Tokenizer tokenizer = golden_tokenizer("gpt2");
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(tokenizer.decode(encoded(tokenizer, text)), text);
}

TEST(StreamDecoder, HoldsBackPartialCharacters) {
  const Tokenizer tokenizer = byte_tokenizer();
  StreamDecoder decoder(tokenizer);
  std::string shown;
  for (const char c : std::string("aé🙂z")) {
    const std::string text = decoder.push(static_cast<unsigned char>(c));
    EXPECT_EQ(valid_utf8_prefix(text), text.size());
    shown += text;
  }
  EXPECT_EQ(shown + decoder.finish(), "aé🙂z");
  EXPECT_EQ(decoder.push(0xff), "\xef\xbf\xbd");
  EXPECT_EQ(decoder.push(0xf0), "");
  EXPECT_EQ(decoder.push('x'), "\xef\xbf\xbdx");
  EXPECT_EQ(decoder.push(0xe2), "");
  EXPECT_EQ(decoder.finish(), "\xef\xbf\xbd");
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_ERROR(decoder.push(256), ExitCode::bad_data, "256");
}

TEST(BadTokenizer, EveryTruncationIsAnError) {
  const std::string text = golden("gpt2.json");
  for (size_t size = 0; size < text.size(); size += size < 400 ? 1 : 97) {
    EXPECT_ERROR(tokenizer_from_json(text.substr(0, size), "t.json"), ExitCode::bad_data, "t.json");
  }
}

TEST(BadTokenizer, Catalogue) {
  const Json good = Json::parse(golden("gpt2.json"));
  const auto expect_bad = [&](const char* pointer, const Json& value, const char* part) {
    Json bad = good;
    bad[Json::json_pointer(pointer)] = value;
    EXPECT_ERROR(tokenizer_from_json(bad.dump(), "t.json"), ExitCode::bad_data, part);
  };
  expect_bad("/model", nullptr, "vocab");
  expect_bad("/model/type", "WordPiece", "WordPiece");
  expect_bad("/model/vocab", Json::array(), "vocabulary");
  expect_bad("/model/vocab/new", -1, "-1");
  expect_bad("/model/vocab/new", 1LL << 40, "id");
  expect_bad("/model/vocab/new", 3, "twice");
  expect_bad("/model/vocab/new", "3", "id");
  expect_bad("/model/merges", "x", "merges");
  expect_bad("/model/merges/0", Json::array({"a", "b", "c"}), "merge 0");
  expect_bad("/model/merges/0", Json::array({"zz", "b"}), "zz");
  expect_bad("/model/merges/0", "ab", "merge 0");
  expect_bad("/model/byte_fallback", true, "byte_fallback");
  expect_bad("/model/dropout", 0.1, "dropout");
  expect_bad("/normalizer", {{"type", "Lowercase"}}, "Lowercase");
  expect_bad("/pre_tokenizer", {{"type", "Whitespace"}}, "Whitespace");
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Json prefixed = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", false}};
  const auto split = [](const char* regex) -> Json {
    return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}};
  };
  const auto expect_bad_sequence = [&](const Json& parts, const char* part) {
    expect_bad("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", parts}}, part);
  };
  expect_bad_sequence({split("(("), bytes}, "((");
  expect_bad_sequence({split("[a&&[^b]]"), bytes}, "\"&&\" in a split pattern");
  expect_bad("/pre_tokenizer", split("a"), "without ByteLevel");
  expect_bad_sequence({bytes, split("a")}, "behind ByteLevel");
  expect_bad_sequence({bytes, bytes}, "behind ByteLevel");
  expect_bad_sequence({split("a"), prefixed}, "add_prefix_space");  // `tokenizers`: every piece
  expect_bad("/added_tokens/0/content", "", "added token");
  expect_bad("/added_tokens/0/id", 1 << 30, "id");
  expect_bad("/added_tokens/0/lstrip", true, "lstrip");
  expect_bad("/added_tokens/0/id", 3, "<|endoftext|>");         // the vocabulary says 0
  expect_bad("/added_tokens/0/content", "<|end|>", "another");  // of another token
  Json again = good["added_tokens"][0];
  again["content"] = "<|end|>";
  expect_bad("/added_tokens/1", again, "another");
  again["content"] = "é";  // spells the byte 0xe9
  again["id"] = good["model"]["vocab"]["é"];
  expect_bad("/added_tokens/1", again, "another");
  again["id"] = 600;
  again["content"] = "a";
  expect_bad("/added_tokens/1", again, "vocabulary");
  again["content"] = "<|endoftext|>";
  expect_bad("/added_tokens/1", again, "vocabulary");
  Json missing = good;
  missing["model"]["vocab"].erase("Ā");
  EXPECT_ERROR(tokenizer_from_json(missing.dump(), "t.json"), ExitCode::bad_data, "0x00");
}

TEST(BadTokenizer, Merges) {
  const std::string vocab = vocab_to_json(byte_tokenizer());
  EXPECT_EQ(tokenizer_from_vocab(vocab, "#version: 0.2\r\n\n", "v").vocab_size(), 256);
  EXPECT_ERROR(tokenizer_from_vocab(vocab, "a b", "v"), ExitCode::bad_data, "ab");
  EXPECT_ERROR(tokenizer_from_vocab(vocab, "ab", "v"), ExitCode::bad_data, "merge 0");
  EXPECT_ERROR(tokenizer_from_vocab(vocab, "a b c", "v"), ExitCode::bad_data, "merge 0");
  EXPECT_ERROR(tokenizer_from_vocab("[]", "", "v"), ExitCode::bad_data, "vocabulary");
  EXPECT_ERROR(load_tokenizer("/nonexistent/vocab.json"), ExitCode::no_input, "vocab.json");
}

TEST(StrictJson, RejectsDuplicatesAndDepth) {
  EXPECT_ERROR(parse_json(R"({"a":1,"b":{"a":1,"a":2}})", "f"), ExitCode::bad_data, "twice");
  EXPECT_EQ(parse_json(R"([{"a":1},{"a":2}])", "f").size(), 2u);
  EXPECT_ERROR(parse_json(std::string(65, '[') + std::string(65, ']'), "f"), ExitCode::bad_data,
               "64");
  EXPECT_ERROR(parse_json(std::string(1000000, '['), "f"), ExitCode::bad_data, "64");
  EXPECT_EQ(parse_json(std::string(64, '[') + std::string(64, ']'), "f").size(), 1u);
  for (const char* bad : {"", "{", "1 2", "nul", "\"\xff\"", "{\"a\":}", "\"\\ud800\""}) {
    EXPECT_ERROR(parse_json(bad, "f.json"), ExitCode::bad_data, "f.json");
  }
}

}  // namespace
}  // namespace stretto
