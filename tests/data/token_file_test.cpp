#include "data/token_file.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

using Documents = std::vector<std::vector<int32_t>>;

std::vector<int32_t> all_ids(const TokenSource& source) {
  std::vector<int32_t> ids(static_cast<size_t>(source.tokens()));
  source.read(0, ids);
  return ids;
}

void write_documents(TokenWriter& writer, const Documents& documents) {
  for (const auto& document : documents) writer.add_document(document);
  writer.finish();
}

std::vector<int32_t> flat(const Documents& documents) {
  std::vector<int32_t> ids;
  for (const auto& document : documents) ids.insert(ids.end(), document.begin(), document.end());
  return ids;
}

// A valid pair of two documents that the bad-input tests then damage.
struct Pair {
  TempDir dir;
  std::string stem = dir / "corpus";
  std::string idx = stem + ".idx", bin = stem + ".bin";

  Pair() { write_documents(*write_megatron(stem, 1000), {{1, 2, 3}, {4, 5}}); }

  template <typename T>
  void poke(int64_t offset, T value) {
    std::fstream file(idx, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset);
    file.write(reinterpret_cast<const char*>(&value), sizeof(value));
  }
};

RC_GTEST_PROP(TokenFile, MegatronRoundTrip, ()) {
  const bool wide = *rc::gen::arbitrary<bool>();
  const int64_t vocab = wide ? 200000 : 50257;
  const auto documents = *rc::gen::nonEmpty(rc::gen::container<Documents>(
      rc::gen::container<std::vector<int32_t>>(rc::gen::inRange<int32_t>(0, int32_t(vocab)))));
  if (flat(documents).empty()) return;
  const TempDir dir;
  write_documents(*write_megatron(dir / "c", vocab), documents);
  for (const char* name : {"c", "c.bin", "c.idx"}) {
    const auto source = open_tokens(dir / name);
    RC_ASSERT(all_ids(*source) == flat(documents));
    RC_ASSERT(source->documents() == static_cast<int64_t>(documents.size()));
    int64_t begin = 0;
    for (size_t i = 0; i < documents.size(); ++i) {
      RC_ASSERT(source->document_begin(int64_t(i)) == begin);
      begin += std::ssize(documents[i]);
    }
    RC_ASSERT(source->document_begin(source->documents()) == source->tokens());
  }
}

TEST(TokenFile, MegatronIndexHasThePublishedLayout) {
  const Pair pair;
  const std::string idx = read_file(posix_fs(), pair.idx, 1000);
  ASSERT_EQ(idx.size(), 9u + 8 + 1 + 8 + 8 + 2 * 4 + 2 * 8 + 3 * 8);
  EXPECT_EQ(idx.substr(0, 9), std::string("MMIDIDX\0\0", 9));
  EXPECT_EQ(idx[9], 1);
  EXPECT_EQ(idx[17], 8);       // uint16
  EXPECT_EQ(idx[18], 2);       // sequences
  EXPECT_EQ(idx[26], 3);       // document list entries
  EXPECT_EQ(idx[34], 3);       // first length
  EXPECT_EQ(idx[42 + 8], 6);   // second pointer, bytes
  EXPECT_EQ(idx[58 + 16], 2);  // end of the document list
  EXPECT_EQ(read_file(posix_fs(), pair.bin, 100), std::string("\1\0\2\0\3\0\4\0\5\0", 10));
}

TEST(TokenFile, LlmcRoundTripBothWidths) {
  const TempDir dir;
  for (const int64_t vocab : {50257, 128256}) {
    const Documents documents = {{0, 1, int32_t(vocab - 1)}, {7}};
    write_documents(*write_llmc(dir / "t.bin", vocab), documents);
    const auto source = open_tokens(dir / "t.bin");
    EXPECT_EQ(all_ids(*source), flat(documents));
    EXPECT_EQ(source->format(), vocab > 65536 ? "llm.c uint32" : "llm.c uint16");
    const std::string raw = read_file(posix_fs(), dir / "t.bin", 5000);
    EXPECT_EQ(raw.size(), 1024u + 4 * (vocab > 65536 ? 4 : 2));
  }
}

// As narrow as the format allows: Megatron itself goes over to 32 bits a little earlier.
TEST(TokenFile, WidthsChangeWhereTheirFormatsSay) {
  const TempDir dir;
  const auto format = [&](bool megatron, int64_t vocab) {
    const std::string path = dir / (megatron ? "m" : "l.bin");
    write_documents(*(megatron ? write_megatron(path, vocab) : write_llmc(path, vocab)),
                    {{0, static_cast<int32_t>(vocab - 1)}});
    EXPECT_EQ(all_ids(*open_tokens(path)).back(), vocab - 1);
    return open_tokens(path)->format();
  };
  EXPECT_EQ(format(false, 65536), "llm.c uint16");
  EXPECT_EQ(format(false, 65537), "llm.c uint32");
  EXPECT_EQ(format(true, 65499), "megatron uint16");
  EXPECT_EQ(format(true, 65500), "megatron int32");
}

TEST(TokenFile, RawAndBytes) {
  const TempDir dir;
  const std::string raw("\1\0\xff\xff", 4);
  EXPECT_EQ(all_ids(*open_tokens(dir.write("a.u16", raw))), (std::vector<int32_t>{1, 65535}));
  EXPECT_EQ(all_ids(*open_tokens(dir.write("a.bin", raw), TokenFormat::u16)),
            (std::vector<int32_t>{1, 65535}));
  EXPECT_EQ(all_ids(*open_tokens(dir.write("a.txt", "h\xff"))), (std::vector<int32_t>{104, 255}));
}

TEST(TokenFile, ReadsAcrossPieces) {
  const TempDir dir;
  std::vector<int32_t> ids(20000);
  std::iota(ids.begin(), ids.end(), 0);
  write_documents(*write_megatron(dir / "c", 20000), {ids});
  const auto source = open_tokens(dir / "c");
  std::vector<int32_t> out(9000);
  source->read(5003, out);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], int32_t(5003 + i));
}

TEST(TokenFile, SyntheticIsAPureFunction) {
  const auto a = synthetic_tokens(7, 50257), b = synthetic_tokens(7, 50257);
  std::vector<int32_t> one(1000), two(500);
  a->read(3, one);
  b->read(503, two);
  EXPECT_TRUE(std::equal(two.begin(), two.end(), one.begin() + 500));
  for (const int32_t id : one) ASSERT_TRUE(id >= 0 && id < 50257);
  synthetic_tokens(8, 50257)->read(503, two);
  EXPECT_FALSE(std::equal(two.begin(), two.end(), one.begin() + 500));
}

// Whether a position is even or odd, all ids are as likely, the first and the last among them.
TEST(TokenFile, SyntheticTokensAreUniform) {
  constexpr int64_t kVocab = 10, kTokens = 200'000;
  std::vector<int32_t> ids(kTokens);
  synthetic_tokens(3, kVocab)->read(0, ids);
  int64_t seen[2][kVocab] = {};
  for (size_t i = 0; i < ids.size(); ++i) ++seen[i % 2][ids[i]];
  const double expected = kTokens / 2.0 / kVocab;
  for (const auto& parity : seen) {
    for (const int64_t count : parity) {
      EXPECT_NEAR(static_cast<double>(count), expected, 5 * std::sqrt(expected));
    }
  }
}

TEST(TokenFile, DroppedWriterLeavesNothing) {
  const TempDir dir;
  {
    const auto megatron = write_megatron(dir / "c", 100);
    megatron->add_document(std::vector<int32_t>{1});
    const auto llmc = write_llmc(dir / "d.bin", 100);
    llmc->add_document(std::vector<int32_t>{1});
  }
  EXPECT_EQ(dir.entries(), 0u);
}

TEST(BadTokenFile, MissingDirectoryFifoEmpty) {
  const TempDir dir;
  EXPECT_ERROR(open_tokens(dir / "none.bin"), ExitCode::no_input, "none.bin");
  EXPECT_ERROR(open_tokens(dir / "none.txt"), ExitCode::no_input, "none.txt");
  EXPECT_ERROR(open_tokens(dir / "none.idx"), ExitCode::no_input, "none.idx");
  EXPECT_ERROR(open_tokens(dir.path()), ExitCode::bad_data, "directory");
  ASSERT_EQ(mkfifo((dir / "f.u16").c_str(), 0600), 0);
  EXPECT_ERROR(open_tokens(dir / "f.u16"), ExitCode::bad_data, "regular");
  EXPECT_ERROR(open_tokens(dir.write("e.txt", "")), ExitCode::bad_data, "empty");
  EXPECT_ERROR(open_tokens(dir.write("e.u16", "")), ExitCode::bad_data, "empty");
  EXPECT_ERROR(open_tokens(dir.write("e.bin", "")), ExitCode::bad_data, "header");
  EXPECT_ERROR(open_tokens(dir.write("odd.u16", "abc")), ExitCode::bad_data, "3 bytes");
  EXPECT_ERROR(parse_token_format("mds"), ExitCode::bad_config, "mds");
}

TEST(BadTokenFile, CompressedTextIsNoTextUnlessOneSaysSo) {
  const TempDir dir;
  const std::string path = dir.write("c.txt.gz", "\x1f\x8b\x08 and so on");
  EXPECT_ERROR(open_tokens(path), ExitCode::bad_data, "compressed with gzip");
  EXPECT_EQ(open_tokens(path, TokenFormat::bytes)->tokens(), 13);
}

// The same files are opened by verbs whose option is --format.
TEST(BadTokenFile, TheFixIsThatOfEveryVerb) {
  const TempDir dir;
  for (const std::string& path :
       {dir.write("c.txt", "%PDF-1.7"), dir.write("c.bin", "abcd"), dir.write("c.u16", "abc")}) {
    try {
      open_tokens(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.hint().find("data.format"), std::string::npos) << error.hint();
      EXPECT_NE(error.hint().find("format"), std::string::npos) << error.hint();
    }
  }
}

TEST(BadTokenFile, Llmc) {
  const TempDir dir;
  std::string file(1024 + 4, '\0');
  const auto put = [&](int word, int32_t value) {
    std::memcpy(&file[size_t(word) * 4], &value, 4);
  };
  EXPECT_ERROR(open_tokens(dir.write("a.bin", file)), ExitCode::bad_data, "header");
  put(0, 20240520);
  put(1, 2);
  EXPECT_ERROR(open_tokens(dir.write("a.bin", file)), ExitCode::bad_data, "version 2");
  put(1, 1);
  EXPECT_ERROR(open_tokens(dir.write("a.bin", file)), ExitCode::bad_data, "counts 0");
  put(2, 3);
  EXPECT_ERROR(open_tokens(dir.write("a.bin", file)), ExitCode::bad_data, "holds 4 bytes");
  put(2, 1);  // as where a program counts further than 31 bits go
  EXPECT_ERROR(open_tokens(dir.write("a.bin", file)), ExitCode::bad_data, "holds 4 bytes");
  put(2, -1);
  EXPECT_ERROR(open_tokens(dir.write("a.bin", file)), ExitCode::bad_data, "counts -1");
  put(2, 2);
  EXPECT_EQ(open_tokens(dir.write("a.bin", file))->tokens(), 2);
  EXPECT_ERROR(open_tokens(dir.write("a.bin", file + "x")), ExitCode::bad_data,
               "counts 2 tokens of 2 bytes, the file holds 5 bytes of them");
  put(0, 20240801);
  put(1, 7);
  put(2, 1);
  file.replace(1024, 4, "\xff\xff\xff\xff");
  const auto source = open_tokens(dir.write("a.bin", file));
  std::vector<int32_t> one(1);
  EXPECT_ERROR(source->read(0, one), ExitCode::bad_data, "4294967295");
}

TEST(BadTokenFile, MegatronHeader) {
  {
    Pair p;
    p.poke<char>(0, 'X');
    EXPECT_ERROR(open_tokens(p.stem), ExitCode::bad_data, "MMIDIDX");
  }
  {
    Pair p;
    p.poke<uint64_t>(9, 2);
    EXPECT_ERROR(open_tokens(p.stem), ExitCode::bad_data, "version");
  }
  for (const int code : {0, 6, 7, 9, 255}) {
    Pair p;
    p.poke(17, static_cast<uint8_t>(code));
    EXPECT_ERROR(open_tokens(p.stem), ExitCode::bad_data, "dtype code");
  }
  for (const uint64_t count :
       {uint64_t{3}, uint64_t{1} << 32, uint64_t{1} << 61, uint64_t{1} << 63, ~uint64_t{0}}) {
    {
      Pair p;
      p.poke(18, count);
      EXPECT_ERROR(open_tokens(p.stem), ExitCode::bad_data, ".idx");
    }
    if (count == 3) continue;  // the true number of entries
    {
      Pair p;
      p.poke(26, count);
      EXPECT_ERROR(open_tokens(p.stem), ExitCode::bad_data, ".idx");
    }
  }
}

TEST(BadTokenFile, MegatronOffsets) {
  const auto expect_bad = [](int64_t offset, auto value) {
    Pair p;
    p.poke(offset, value);
    EXPECT_ERROR(open_tokens(p.stem), ExitCode::bad_data, "corpus.");
  };
  expect_bad(34, int32_t{-3});         // negative length
  expect_bad(34, int32_t{2});          // gap before the second sequence
  expect_bad(38, int32_t{INT32_MAX});  // beyond the end
  expect_bad(42, int64_t{2});          // does not begin at 0
  expect_bad(50, int64_t{4});          // overlaps the first
  expect_bad(50, int64_t{-6});
  expect_bad(50, INT64_MAX);
  expect_bad(58, int64_t{1});  // documents do not begin at 0
  expect_bad(66, int64_t{3});  // beyond the sequences
  expect_bad(74, int64_t{0});  // going back
  expect_bad(74, INT64_MIN);
}

TEST(BadTokenFile, MegatronCountsTooFewDocuments) {
  for (const uint64_t entries : {0, 1, 2}) {  // one more than documents; there are 3
    Pair p;
    p.poke(26, entries);
    EXPECT_ERROR(open_tokens(p.stem), ExitCode::bad_data, "of 2");
  }
  Pair p;
  p.poke(74, int64_t{1});  // the last document ends before the last sequence
  EXPECT_ERROR(open_tokens(p.stem), ExitCode::bad_data, "end at sequence 1 of 2");
}

TEST(BadTokenFile, MegatronEveryTruncation) {
  for (const bool index : {true, false}) {
    Pair p;
    const std::string path = index ? p.idx : p.bin;
    for (auto size = std::filesystem::file_size(path); size-- > 0;) {
      std::filesystem::resize_file(path, size);
      EXPECT_ERROR(open_tokens(p.stem), ExitCode::bad_data, "corpus.");
    }
  }
  Pair p;
  std::filesystem::resize_file(p.bin, 12);
  EXPECT_ERROR(open_tokens(p.stem), ExitCode::bad_data, "12 bytes");
  std::filesystem::remove(p.bin);
  EXPECT_ERROR(open_tokens(p.stem), ExitCode::no_input, "corpus.bin");
}

TEST(BadTokenFile, ShrinksWhileMapped) {
  const TempDir dir;
  const std::string path = dir.write("a.u16", std::string(200000, '\1'));
  const auto source = open_tokens(path);
  ASSERT_EQ(truncate(path.c_str(), 2), 0);
  std::vector<int32_t> ids(100);
  EXPECT_ERROR(source->read(90000, ids), ExitCode::bad_data, "shorter");
  EXPECT_ERROR(source->read(0, ids), ExitCode::bad_data, "shorter");
}

}  // namespace
}  // namespace stretto
