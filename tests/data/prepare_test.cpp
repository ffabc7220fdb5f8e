#include "data/prepare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/encoder.h"
#include "support/expect_error.h"
#include "support/no_threads.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer value =
      load_tokenizer(STRETTO_SOURCE_DIR "/tests/goldens/tokenizer/gpt2.json");
  return value;
}

std::vector<int32_t> all_ids(const std::string& path) {
  const auto source = open_tokens(path);
  std::vector<int32_t> ids(static_cast<size_t>(source->tokens()));
  source->read(0, ids);
  return ids;
}

PrepareProgress prepare(const CorpusOptions& options, const std::string& output, int threads = 2) {
  CorpusReader corpus(options);
  const auto writer = write_megatron(output, tokenizer().vocab_size());
  return prepare_tokens(corpus, tokenizer(), tokenizer().end_of_document(), *writer, threads);
}

// 5 MB, so several blocks: cutting them must not show in the ids, whatever the thread count.
TEST(Prepare, BlocksAndThreadsDoNotShow) {
  const TempDir dir;
  std::string text;
  for (int i = 0; text.size() < 5'000'000; ++i) {
    text += "It's line " + std::to_string(i) + "  of the naïve\ttext,\r\n\n   über 日本 voices!\n";
  }
  std::vector<int32_t> expected;
  Encoder encoder(tokenizer());
  encoder.encode(text, expected);
  expected.push_back(*tokenizer().end_of_document());
  const std::string path = dir.write("c.txt", text);
  for (const int threads : {1, 2, 5}) {
    const PrepareProgress done = prepare({{path}}, dir / "out", threads);
    EXPECT_EQ(done.bytes, std::ssize(text));
    EXPECT_EQ(done.documents, 1);
    EXPECT_EQ(all_ids(dir / "out"), expected) << threads;
  }
}

// A document gets its space once, not in every block that it is read in.
TEST(Prepare, OnlyTheBeginningOfADocumentGetsASpace) {
  TokenizerSpec spec = tokenizer().spec();
  spec.prefix_space = true;
  const Tokenizer prefixed(spec, "prefixed");
  const TempDir dir;
  // Cuts are at newlines: behind one there is no space.
  std::string text;
  for (int i = 0; text.size() < 3'000'000; ++i) text += fmt::format("line {}\n", i);
  CorpusReader corpus({{dir.write("c.txt", text)}});
  const auto writer = write_megatron(dir / "out", prefixed.vocab_size());
  prepare_tokens(corpus, prefixed, std::nullopt, *writer, 2);
  const std::vector<int32_t> ids = all_ids(dir / "out");
  EXPECT_TRUE(prefixed.decode(ids) == " " + text);  // too long to be shown
  std::vector<int32_t> expected;
  Encoder(prefixed).encode(text, expected);
  EXPECT_TRUE(ids == expected);
}

// Lines are numbered on from block to block.
TEST(Prepare, AMistakeFarIntoAFileIsNamedByItsLine) {
  const TempDir dir;
  std::string text;
  int64_t lines = 0;
  while (text.size() < 2'500'000) {
    text += "{\"text\": \"one of many\"}\n";
    ++lines;
  }
  const std::string path = dir.write("c.jsonl", text + "{\"text\": 3}\n" + text);
  EXPECT_ERROR(prepare({{path}}, dir / "out"), ExitCode::bad_data,
               fmt::format("c.jsonl:{}: ", lines + 1));
}

// A block is what a thread holds in memory, and blocks are what threads share.
TEST(Prepare, TextOfAnyScriptIsReadInBlocks) {
  const TempDir dir;
  for (const std::string line :
       {"Всё смешалось, как в доме.\n", "道可道，非常道。\n", "नमस्ते दुनिया।\n",
        "“名可名”\n非常名。\n", "第一章\r\n", "道可道，非常道。\r\n", "「名可名。」\n\n",
        "\u3000\u3000第一章、道。\n"}) {
    std::string text;
    while (text.size() < 3'000'000) text += line;
    CorpusReader corpus({{dir.write("c.txt", text)}});
    CorpusBlock block;
    while (corpus.next(block)) ASSERT_LE(block.bytes.size(), size_t{1} << 20) << line;
    prepare({{dir / "c.txt"}}, dir / "out");
    std::vector<int32_t> expected;
    Encoder(tokenizer()).encode(text, expected);
    expected.push_back(*tokenizer().end_of_document());
    EXPECT_EQ(all_ids(dir / "out"), expected) << line;
  }
}

TEST(Prepare, JsonLinesKeepTheirDocuments) {
  const TempDir dir;
  const std::string path = dir.write("c.jsonl",
                                     "{\"text\": \"one \\u00fc\", \"id\": {\"text\": 3}}\n\n"
                                     "{\"id\": [1, {}], \"text\": \"two\"}\r\n{\"text\": \"\"}\n"
                                     "{\"text\": \"three\"}");
  EXPECT_EQ(prepare({{path, path}}, dir / "out").documents, 6);
  const auto source = open_tokens(dir / "out");
  ASSERT_EQ(source->documents(), 6);
  std::vector<std::string> texts;
  for (int64_t i = 0; i < 3; ++i) {
    std::vector<int32_t> ids(size_t(source->document_begin(i + 1) - source->document_begin(i)));
    source->read(source->document_begin(i), ids);
    texts.push_back(tokenizer().decode(ids));
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"one ü<|endoftext|>", "two<|endoftext|>",
                                             "three<|endoftext|>"}));
}

// What begins with a whole object is JSON Lines; the rest of what is called .json is text.
TEST(Prepare, JsonLinesMayBeCalledJson) {
  const TempDir dir;
  const std::string lines = dir.write("c.json", "{\"body\": \"one\"}\n{\"body\": \"two\"}\n");
  EXPECT_EQ(prepare({{lines}, "body"}, dir / "out").documents, 2);
  EXPECT_ERROR(prepare({{lines}}, dir / "out"), ExitCode::bad_data, "c.json:1");
  for (const char* text : {"{\n  \"text\": \"one\"\n}\n", "[1,\n2]\n", "{{mustache}}\nmore\n"}) {
    EXPECT_EQ(prepare({{dir.write("d.json", text)}}, dir / "out").documents, 1) << text;
  }
  EXPECT_ERROR(prepare({{dir.write("c.txt", "one")}, "body"}, dir / "out"), ExitCode::usage,
               "--key body");
}

TEST(Prepare, AnArrayOfDocumentsIsNotTakenForText) {
  const TempDir dir;
  for (const char* array : {"[{\"text\": \"one\"}]", " [\n  {\n    \"text\": \"one\"}]\n",
                            "[\"one\",\n\"two\"]", "\xef\xbb\xbf[{}]"}) {
    EXPECT_ERROR(prepare({{dir.write("a.json", array)}}, dir / "out"), ExitCode::bad_data,
                 "a.json is one JSON array");
    EXPECT_EQ(prepare({{dir.write("a.txt", array)}}, dir / "out").documents, 1) << array;
  }
  for (const char* text : {"[", "[]", "[1, {}]", "[[\"a\"]]", "[link](there)\n"}) {
    EXPECT_EQ(prepare({{dir.write("b.json", text)}}, dir / "out").documents, 1) << text;
  }
}

TEST(Prepare, CompressedFilesAreNoText) {
  const TempDir dir;
  EXPECT_ERROR(prepare({{dir.write("c.txt", "\x1f\x8b\x08 and so on")}}, dir / "out"),
               ExitCode::bad_data, "c.txt is compressed with gzip");
  EXPECT_ERROR(prepare({{dir.write("c.jsonl", "\x28\xb5\x2f\xfd and so on")}}, dir / "out"),
               ExitCode::bad_data, "zstd");
  // The first bytes of what xz, bzip2, lz4 and zip make.
  const std::pair<const char*, std::string> others[] = {
      {"xz", "\xfd\x37\x7a\x58\x5a and so on"},
      {"bzip2", "BZh9\x31\x41\x59\x26\x53\x59 and so on"},
      {"lz4", "\x04\x22\x4d\x18 and so on"},
      {"zip", "\x50\x4b\x03\x04 and so on"}};
  for (const auto& [name, bytes] : others) {
    EXPECT_ERROR(prepare({{dir.write("c.txt", bytes)}}, dir / "out"), ExitCode::bad_data,
                 fmt::format("c.txt is compressed with {}", name));
  }
  EXPECT_EQ(prepare({{dir.write("c.txt", "PK and BZh9 are words")}}, dir / "out").documents, 1);
}

TEST(Prepare, Utf16And32AreNoTextYet) {
  const TempDir dir;
  const std::pair<const char*, std::string> others[] = {
      {"c.txt is UTF-16", std::string("\xff\xfeH\0i\0\0\0", 8)},
      {"c.txt is UTF-16", std::string("\xfe\xff\0H\0i\0\0", 8)},
      {"c.txt is UTF-32", std::string("\xff\xfe\0\0H\0\0\0", 8)},
      {"c.txt is UTF-32", std::string("\0\0\xfe\xff\0\0\0H", 8)}};
  for (const auto& [part, text] : others) {
    EXPECT_ERROR(prepare({{dir.write("c.txt", text)}}, dir / "out"), ExitCode::bad_data, part);
    EXPECT_ERROR(open_tokens(dir / "c.txt"), ExitCode::bad_data, part);
    EXPECT_EQ(open_tokens(dir / "c.txt", TokenFormat::bytes)->tokens(), 8);
  }
}

// As data sets and books are handed on.
TEST(Prepare, TablesArraysAndPdfAreNoText) {
  const TempDir dir;
  const std::pair<const char*, const char*> others[] = {{"PAR1\x15\x04", "c is a Parquet table"},
                                                        {"\x93NUMPY\1", "c is an array of NumPy"},
                                                        {"%PDF-1.7\n", "c is a PDF"}};
  for (const auto& [bytes, part] : others) {
    EXPECT_ERROR(prepare({{dir.write("c", bytes)}}, dir / "out"), ExitCode::bad_data, part);
    EXPECT_ERROR(open_tokens(dir / "c"), ExitCode::bad_data, part);
    try {
      open_tokens(dir / "c");
    } catch (const Error& error) {
      EXPECT_NE(error.hint().find(dir / "c"), std::string::npos) << error.hint();
    }
  }
  EXPECT_EQ(prepare({{dir.write("c", "PAR1 is a word")}}, dir / "out").documents, 1);
}

TEST(Prepare, TokensAreNoText) {
  const TempDir dir;
  const auto refuse = [&](const std::string& path, const char* part) {
    EXPECT_ERROR(prepare({{path}}, dir / "again"), ExitCode::bad_data, part);
  };
  prepare({{dir.write("t.txt", "some text")}}, dir / "pair");
  refuse(dir / "pair.bin", "the tokens of Megatron's index");
  refuse(dir / "pair.idx", "an index of Megatron's tokens");
  refuse(dir.write("a", std::string("\x88\xd8\x34\x01\x01\0\0\0", 8)), "a token file of llm.c");
  refuse(dir.write("b", std::string("\xa1\xd9\x34\x01\x07\0\0\0", 8)), "a token file of llm.c");
}

// Editors of one system put it in front of every file.
TEST(Prepare, AByteOrderMarkIsNoPartOfTheText) {
  const TempDir dir;
  const std::string mark = "\xef\xbb\xbf";
  for (const bool lines : {false, true}) {
    for (const std::string text : {"one\ntwo", "one \xef\xbb\xbf two\n"}) {
      CorpusOptions options{{dir.write("plain.txt", text)}, "", lines};
      const int64_t documents = prepare(options, dir / "plain").documents;
      options.paths = {dir.write("marked.txt", mark + text)};
      EXPECT_EQ(prepare(options, dir / "marked").documents, documents);
      EXPECT_EQ(all_ids(dir / "marked"), all_ids(dir / "plain")) << text;
    }
  }
  // Nor where its bytes are the tokens, unless one says so.
  EXPECT_EQ(all_ids(dir / "marked.txt"), all_ids(dir / "plain.txt"));
  EXPECT_EQ(open_tokens(dir / "marked.txt", TokenFormat::bytes)->tokens(),
            open_tokens(dir / "plain.txt")->tokens() + 3);
  const std::string alone = dir.write("alone.txt", mark);
  EXPECT_ERROR(open_tokens(alone), ExitCode::bad_data, "alone.txt: the file is empty");
  EXPECT_ERROR(prepare({{alone}}, dir / "out"), ExitCode::bad_data, "no text");
  EXPECT_EQ(prepare({{alone, dir / "plain.txt"}}, dir / "out").documents, 1);
}

TEST(Prepare, LinesAsDocuments) {
  const TempDir dir;
  CorpusOptions options{{dir.write("c.txt", "one\ntwo\n\nthree")}};
  options.line_documents = true;
  EXPECT_EQ(prepare(options, dir / "out").documents, 3);
}

TEST(Prepare, BadJsonLinesNameTheLineAndLeaveNothing) {
  const TempDir dir;
  const auto expect_bad = [&](const std::string& content, const char* part) {
    const std::string path = dir.write("c.jsonl", content);
    EXPECT_ERROR(prepare({{path}}, dir / "out"), ExitCode::bad_data, part);
    EXPECT_EQ(dir.entries(), 1u);
  };
  expect_bad("{\"text\": \"a\"}\n{\"text\": }\n", "c.jsonl:2");
  expect_bad("{\"body\": \"a\"}\n", "no key \"text\"");
  expect_bad("{\"text\": 3}\n", "not a string");
  expect_bad("{\"text\": {\"text\": \"a\"}}\n", "not a string");
  expect_bad("{\"text\": \"a\", \"text\": \"b\"}\n", "twice");
  for (const char* line : {"[\"text\"]\n", "\"text\"\n", "3\n", "null\n"}) {
    expect_bad(line, "c.jsonl:1: bad JSON: an object is expected on each line");
  }
  expect_bad("{\"text\": \"a\"} {\"text\": \"b\"}\n", "c.jsonl:1");
  expect_bad("{\"text\": \"\xff\"}\n", "c.jsonl:1");
  expect_bad("{\"x\":" + std::string(100, '[') + "\n", "64");
  expect_bad("", "no text");
  EXPECT_ERROR(prepare({{dir / "missing.txt"}}, dir / "out"), ExitCode::no_input, "missing");
  EXPECT_ERROR(prepare({{dir.path()}}, dir / "out"), ExitCode::bad_data, "directory");
}

TEST(Prepare, AnEndlessWordIsCutSomewhere) {
  const TempDir dir;
  const std::string text(3'000'000, 'x');
  prepare({{dir.write("c.txt", text)}}, dir / "out");
  auto ids = all_ids(dir / "out");
  ids.pop_back();
  EXPECT_EQ(tokenizer().decode(ids), text);
}

TEST(Prepare, GoesOnWithTheThreadsThereAre) {
  const TempDir dir;
  CorpusOptions options;
  options.paths = {dir.write("a.txt", "one text, and another\n")};
  const PrepareProgress with = prepare(options, dir / "with", 3);
  const NoThreads none;
  const PrepareProgress without = prepare(options, dir / "without", 3);
  EXPECT_GT(with.tokens, 0);
  EXPECT_EQ(without.tokens, with.tokens);
  EXPECT_EQ(all_ids(dir / "without"), all_ids(dir / "with"));
}

}  // namespace
}  // namespace stretto
