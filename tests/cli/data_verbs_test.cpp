// tokenizer and data: what they make, and what they say to files that are none.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/program.h"

namespace stretto::test {
namespace {

using nlohmann::json;

// Words, every UTF-8 length, a control character, and bytes that are no UTF-8.
std::string odd_text() {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += "The quick brown fox; the lazy dog. \u00e4\u05d0\u4e2d\U0001F600\x01 \xff\xc3( 1234\n";
  }
  return text;
}

struct Files {
  TempDir dir{Where::memory};
  std::string text = dir.write("text.txt", odd_text());
  std::string empty = dir.write("empty.txt", "");
  std::string missing = dir / "none";
  std::string tokenizer = dir / "tokenizer.json";

  void train() const {
    const Answer answer =
        stretto_run({"tokenizer", "train", text, "-o", tokenizer, "--vocab", "300"});
    ASSERT_EQ(answer.code, 0) << answer.err;
  }
};

TEST(TokenizerVerb, TrainsEncodesDecodesAndImports) {
  const Files f;
  f.train();
  const Answer ids = stretto_run({"tokenizer", "encode", f.tokenizer, f.text});
  ASSERT_EQ(ids.code, 0) << ids.err;
  EXPECT_LT(std::count(ids.out.begin(), ids.out.end(), ' '), std::ssize(odd_text()) * 3 / 4);
  EXPECT_EQ(stretto_run({"tokenizer", "decode", f.tokenizer}, ids.out).out, odd_text());
  const Answer list = stretto_run({"tokenizer", "encode", f.tokenizer, "--json"}, odd_text());
  EXPECT_EQ(stretto_run({"tokenizer", "decode", f.tokenizer}, list.out).out, odd_text());
  EXPECT_EQ(stretto_run({"tokenizer", "encode", f.tokenizer}, "").out, "\n");

  const std::string pair = f.dir / "pair", back = f.dir / "back.json";
  EXPECT_EQ(stretto_run({"tokenizer", "import", f.tokenizer, "-o", pair}).code, 0);
  EXPECT_EQ(stretto_run({"tokenizer", "import", pair, "-o", back}).code, 0);
  EXPECT_EQ(stretto_run({"tokenizer", "encode", back, f.text}).out, ids.out);
}

// vocab.json and merges.txt are read as GPT-2's: what differs from it is in a tokenizer.json
// beside.
TEST(TokenizerVerb, ADirectorySaysAsMuchAsAFile) {
  const Files f;
  const std::string file = f.dir / "l.json", trained = f.dir / "l", imported = f.dir / "i";
  const std::vector<std::string> words = {"tokenizer", "train",     f.text,         "--vocab",
                                          "300",       "-o",        file,           "--pattern",
                                          "llama3",    "--special", "<|endoftext|>"};
  ASSERT_EQ(stretto_run(words).code, 0);
  auto others = words;
  others[6] = trained;
  const Answer answer = stretto_run(others);
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_TRUE(answer.says("l/tokenizer.json: use this one")) << answer.err;
  ASSERT_EQ(stretto_run({"tokenizer", "import", file, "-o", imported}).code, 0);
  for (const std::string& directory : {trained, imported}) {
    EXPECT_EQ(content_of(directory + "/tokenizer.json"), content_of(file));
    EXPECT_TRUE(std::filesystem::exists(directory + "/vocab.json"));
    EXPECT_EQ(stretto_run({"tokenizer", "encode", directory}, "12345 DON'T").out,
              stretto_run({"tokenizer", "encode", file}, "12345 DON'T").out);
  }
  // GPT-2's own needs none, but must not leave an older one to be read in its place.
  others[8] = "gpt2";
  ASSERT_EQ(stretto_run(others).code, 0);
  EXPECT_NE(content_of(trained + "/tokenizer.json"), content_of(file));
  others[6] = f.dir / "g";
  ASSERT_EQ(stretto_run(others).code, 0);
  EXPECT_FALSE(std::filesystem::exists(f.dir / "g/tokenizer.json"));
  EXPECT_EQ(stretto_run({"tokenizer", "encode", trained, f.text}).out,
            stretto_run({"tokenizer", "encode", f.dir / "g", f.text}).out);
}

TEST(TokenizerVerb, DoesNotOverwriteWhatItReads) {
  const Files f;
  f.train();
  const std::string before = content_of(f.tokenizer);
  const std::string lines = f.dir.write("lines.json", odd_text());
  expect_refused({"tokenizer", "train", lines, "-o", lines}, 64, "would overwrite");
  EXPECT_EQ(content_of(lines), odd_text());
  for (const std::string& output : {f.tokenizer, f.dir.path()}) {
    expect_refused({"tokenizer", "import", f.tokenizer, "-o", output}, 64, "would overwrite");
    EXPECT_EQ(content_of(f.tokenizer), before);
  }
}

TEST(TokenizerVerb, SaysWhatItLeavesOut) {
  const Files f;
  const std::string ruler(20000, 'x');
  const std::string some = f.dir.write("some", "a word " + ruler + " and more " + ruler + "\n");
  const Answer answer =
      stretto_run({"tokenizer", "train", some, "-o", f.tokenizer, "--vocab", "300"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_TRUE(answer.says("2 pieces of more than 16 KiB (39.06 KiB in all)")) << answer.err;
  EXPECT_TRUE(answer.says("the rest of the text has no more pairs")) << answer.err;
  const std::string one = f.dir.write("one", ruler);
  expect_refused({"tokenizer", "train", one, "-o", f.dir / "t.json"}, 65, "nothing but 1 piece");
  EXPECT_FALSE(
      stretto_run({"tokenizer", "train", f.text, "-o", f.tokenizer}).says("pieces of more"));
}

TEST(TokenizerVerb, RefusesWhatIsNone) {
  const Files f;
  f.train();
  const std::string whole = content_of(f.tokenizer);
  const std::string cut = f.dir.write("cut.json", whole.substr(0, whole.size() / 2));
  const std::string binary = f.dir.write("binary.json", std::string("\x7f"
                                                                    "ELF\0\xff",
                                                                    6));
  expect_refused({"tokenizer", "train", f.missing, "-o", f.dir / "t.json"}, 66, "none");
  expect_refused({"tokenizer", "train", f.dir.path(), "-o", f.dir / "t.json"}, 65, "a directory");
  expect_refused({"tokenizer", "train", f.empty, "-o", f.dir / "t.json"}, 65, "no text");
  expect_refused({"tokenizer", "train", f.text, "--pattern", "bert"}, 64, "bert");
  expect_refused({"tokenizer", "train", f.text, "-o", f.dir / "no/such/t.json"}, 73, "no/such");
  expect_refused({"tokenizer", "encode", f.missing, f.text}, 66, "none");
  expect_refused({"tokenizer", "encode", f.tokenizer, f.missing}, 66, "none");
  expect_refused({"tokenizer", "encode", cut, f.text}, 65, "cut.json");
  expect_refused({"tokenizer", "encode", binary, f.text}, 65, "binary.json");
  expect_refused({"tokenizer", "encode", f.empty, f.text}, 65, "empty.txt");
  expect_refused({"tokenizer", "import", cut, "-o", f.dir / "x.json"}, 65, "cut.json");
  expect_refused({"tokenizer", "decode", f.tokenizer}, 65, "fox", "1 2 fox");
  expect_refused({"tokenizer", "decode", f.tokenizer}, 65, "300", "1 300");
  EXPECT_FALSE(std::filesystem::exists(f.dir / "x.json"));
}

TEST(DataVerb, PreparesAndDescribes) {
  const Files f;
  f.train();
  const std::string lines = f.dir.write("lines.jsonl", R"({"text": "the quick fox"})"
                                                       "\n\n"
                                                       R"({"id": 3, "text": "lazy \u00e4"})"
                                                       "\n");
  for (const std::string& input : {f.text, lines}) {
    const std::string out = f.dir / "out";
    const Answer made =
        stretto_run({"data", "prepare", input, "-t", f.tokenizer, "-o", out, "--json"});
    ASSERT_EQ(made.code, 0) << made.err;
    const Answer info = stretto_run({"data", "info", out + ".bin", "-t", f.tokenizer, "--json"});
    ASSERT_EQ(info.code, 0) << info.err;
    const json record = json::parse(made.out), described = json::parse(info.out);
    EXPECT_EQ(record["tokens"], described["tokens"]);
    EXPECT_EQ(described["documents"], input == lines ? 2 : 1);
    EXPECT_EQ(described["format"], "megatron uint16");
    EXPECT_EQ(described["samples"].size(), 3u);
    EXPECT_LT(described["highest_id"], 300);
  }
  EXPECT_EQ(
      stretto_run({"data", "prepare", f.text, "-t", "bytes", "-o", f.dir / "b", "--format", "llmc"})
          .code,
      0);
  const json bytes = json::parse(stretto_run({"data", "info", f.dir / "b.bin", "--json"}).out);
  EXPECT_EQ(bytes["format"], "llm.c uint16");
  EXPECT_EQ(bytes["tokens"], odd_text().size());
}

TEST(DataVerb, WarnsOfJsonLinesThatAreCalledOtherwise) {
  const Files f;
  const auto says = [&](const char* name, const std::string& content) {
    const Answer made = stretto_run(
        {"data", "prepare", f.dir.write(name, content), "-t", "bytes", "-o", f.dir / "o"});
    EXPECT_EQ(made.code, 0) << made.err;
    return made.err.find("looks like JSON Lines") != std::string::npos;
  };
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  EXPECT_TRUE(says("c.JSONL", lines));
  EXPECT_TRUE(says("c.txt", "\xef\xbb\xbf" + lines));
  EXPECT_FALSE(says("c.jsonl", lines));
  EXPECT_FALSE(says("c.json", lines));
  EXPECT_FALSE(says("c.txt", "{ is no object\n"));
  EXPECT_FALSE(says("c.txt", "a text with {\"text\": \"one\"}\n"));
}

// Of what was prepared before under that name; no reader would take the new file for llm.c's.
TEST(DataVerb, PutsNoOtherFormatBesideAnIndex) {
  const Files f;
  const std::vector<std::string> prepare = {"data",  "prepare", f.text,     "-t",
                                            "bytes", "-o",      f.dir / "c"};
  ASSERT_EQ(stretto_run(prepare).code, 0);
  std::vector<std::string> llmc = prepare;
  llmc.insert(llmc.end(), {"--format", "llmc"});
  expect_refused(llmc, 73, "c.idx is there");
  EXPECT_EQ(json::parse(stretto_run({"data", "info", f.dir / "c.bin", "--json"}).out)["format"],
            "megatron uint16");
  std::filesystem::remove(f.dir / "c.idx");
  EXPECT_EQ(stretto_run(llmc).code, 0);
  EXPECT_EQ(stretto_run(llmc).code, 0);
  EXPECT_EQ(stretto_run(prepare).code, 0);
}

TEST(DataVerb, RemovesWhatAKilledOneLeft) {
  const Files f;
  const std::string bin = f.dir.write("c.bin.tmp-0123456789ab", "tokens");
  const std::string idx = f.dir.write("c.idx.tmp-0123456789ab", "index");
  ASSERT_EQ(stretto_run({"data", "prepare", f.text, "-t", "bytes", "-o", f.dir / "c"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(bin));
  EXPECT_FALSE(std::filesystem::exists(idx));
}

TEST(DataVerb, DoesNotOverwriteWhatItReads) {
  const Files f;
  const std::string text = f.dir.write("x.bin", odd_text()), index = f.dir.write("y.idx", "a text");
  std::filesystem::create_symlink(text, f.dir / "link");
  const auto refuse = [&](const std::string& input, const std::string& output,
                          const std::string& format) {
    expect_refused(
        {"data", "prepare", f.text, input, "-t", "bytes", "-o", output, "--format", format}, 64,
        "would overwrite");
    EXPECT_EQ(content_of(text), odd_text());
    EXPECT_EQ(content_of(index), "a text");
  };
  for (const char* format : {"megatron", "llmc"}) {
    refuse(text, f.dir / "x", format);
    refuse(text, f.dir / "x.bin", format);
    refuse(f.dir / "link", f.dir / "./x", format);
  }
  refuse(index, f.dir / "y", "megatron");
  const Answer made = stretto_run({"data", "prepare", text, "-t", "bytes", "-o", f.dir / "z"});
  EXPECT_EQ(made.code, 0);
  EXPECT_NE(made.err.find(" 1 document from "), std::string::npos) << made.err;
}

TEST(DataVerb, RefusesWhatItCannotRead) {
  const Files f;
  f.train();
  const auto prepare = [&](const std::string& input, int code, std::string_view part) {
    expect_refused({"data", "prepare", input, "-t", f.tokenizer, "-o", f.dir / "o"}, code, part);
    EXPECT_FALSE(std::filesystem::exists(f.dir / "o.bin"));
    EXPECT_FALSE(std::filesystem::exists(f.dir / "o.idx"));
  };
  prepare(f.missing, 66, "none");
  prepare(f.dir.path(), 65, "a directory");
  prepare(f.empty, 65, "no text");
  const std::string nothing = f.dir.write("nothing.jsonl", "{\"text\":\"\"}\n{\"text\":\"\"}\n");
  expect_refused({"data", "prepare", nothing, "-t", "bytes", "-o", f.dir / "none"}, 65, "no text");
  EXPECT_FALSE(std::filesystem::exists(f.dir / "none.bin"));
  expect_refused({"tokenizer", "train", nothing, "-o", f.dir / "none.json"}, 65, "no text");
  EXPECT_FALSE(std::filesystem::exists(f.dir / "none.json"));
  prepare(f.dir.write("cut.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b"), 65, "cut.jsonl:2");
  prepare(f.dir.write("other.jsonl", "{\"body\": \"a\"}\n"), 65, "other.jsonl:1");
  prepare(f.dir / "other.jsonl", 65, "name the key of the text with --key");
  prepare(f.dir.write("latin.jsonl", "{\"text\": \"\xe4\"}\n"), 65, "latin.jsonl:1");
  prepare(f.dir.write("binary.jsonl", std::string("\x7f"
                                                  "ELF\0\xff\n",
                                                  7)),
          65, "binary.jsonl:1");
  expect_refused({"data", "prepare", f.text, "-t", f.missing, "-o", f.dir / "o"}, 66, "none");
  expect_refused({"data", "prepare", f.text, "-t", f.tokenizer, "-o", f.dir / "o", "--format", "x"},
                 64, "\"x\"");
  expect_refused({"data", "prepare", f.text, "-t", f.tokenizer, "-o", f.dir / "no/o"}, 73, "no/o");

  ASSERT_EQ(stretto_run({"data", "prepare", f.text, "-t", f.tokenizer, "-o", f.dir / "a"}).code, 0);
  expect_refused({"data", "info", f.missing}, 66, "none");
  expect_refused({"data", "info", f.dir.path()}, 65, "a directory");
  expect_refused({"data", "info", f.empty}, 65, "empty");
  expect_refused({"data", "info", f.dir.write("n.bin", std::string(5000, 'x'))}, 65, "header");
  EXPECT_EQ(stretto_run({"data", "info", f.dir / "n.bin", "--format", "u16"}).code, 0);
  expect_refused({"data", "info", f.dir.write("odd.u16", "abc")}, 65, "uint16");
  std::filesystem::resize_file(f.dir / "a.idx", 50);
  expect_refused({"data", "info", f.dir / "a.bin"}, 65, "a.idx");
}

// NAME.bin and NAME.idx of no name would be hidden files.
TEST(DataVerb, OutputNeedsAName) {
  const Files f;
  std::filesystem::create_directory(f.dir / "there");
  for (const std::string& output :
       {f.dir / "there/", f.dir / "there/.", f.dir / "there/..", f.dir / "there/.bin"}) {
    expect_refused({"data", "prepare", f.text, "-t", "bytes", "-o", output}, 64, "-o " + output);
  }
  EXPECT_TRUE(std::filesystem::is_empty(f.dir / "there"));
  const std::string odd = f.dir / "ein Näme.bin";
  EXPECT_EQ(stretto_run({"data", "prepare", f.text, "-t", "bytes", "-o", odd}).code, 0);
  EXPECT_EQ(stretto_run({"data", "info", odd}).code, 0);
}

TEST(DataVerb, InfoOfTheHighestId) {
  const Files f;
  std::string index("MMIDIDX\0\0", 9);
  const auto put = [&](auto value) {
    index.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(uint64_t{1});  // version
  put(uint8_t{4});   // int32
  put(uint64_t{1}), put(uint64_t{2}), put(int32_t{1}), put(int64_t{0}), put(int64_t{0});
  put(int64_t{1});
  f.dir.write("max.idx", index);
  const std::string file = f.dir.write("max.bin", "\xff\xff\xff\x7f");
  const Answer answer = stretto_run({"data", "info", file});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.out.find("a vocabulary of 2,147,483,648"), std::string::npos) << answer.out;
  EXPECT_EQ(answer.out.find("distinct"), std::string::npos) << answer.out;  // unknown, not 0
  const json record = json::parse(stretto_run({"data", "info", file, "--json"}).out);
  EXPECT_TRUE(record.at("distinct_ids").is_null()) << record;
  expect_refused({"data", "info", file, "--samples", "-1"}, 64, "--samples");
}

TEST(DataVerb, PrepareThatIsStoppedLeavesNothing) {
  const Files f;
  std::string much;
  while (much.size() < (size_t{48} << 20)) much += odd_text();
  const std::string text = f.dir.write("much.txt", much);
  f.train();
  Program program(
      {"data", "prepare", text, "-t", f.tokenizer, "-o", f.dir / "out", "--threads", "1"});
  const auto made = [&] {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(f.dir.path())) {
      files += entry.path().filename().string().starts_with("out.") ? 1 : 0;
    }
    return files;
  };
  while (made() == 0 && !program.ended()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_GT(made(), 0);
  program.signal(SIGTERM);
  const Answer answer = program.wait();
  EXPECT_EQ(answer.code, 75) << answer.err;
  EXPECT_TRUE(answer.says("stopped")) << answer.err;
  EXPECT_EQ(made(), 0);
}

}  // namespace
}  // namespace stretto::test
