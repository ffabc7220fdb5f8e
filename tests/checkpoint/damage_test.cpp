// Damage on disk: every truncation and every flipped bit of manifest and headers, thousands of
// flipped data bits, zeroed, swapped, missing and foreign files. All found, the place named.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "checkpoint/sample.h"
#include "support/expect_error.h"
#include "support/memory_fs.h"
#include "support/temp_dir.h"

namespace stretto::test {
namespace {

constexpr const char* kRoot = "/c";

struct Damage : ::testing::Test {
  Damage() : store(fs, kRoot) {
    save_sample(store, 10);
    save_sample(store, 20);
  }
  std::string& file(const char* name, int64_t step = 20) {
    return fs.content(store.path_of(step) + "/" + name);
  }
  // Whether the newest checkpoint is refused and the one before takes its place.
  bool falls_back(std::string* message = nullptr) {
    const auto newest = newest_verified(store, [&](int64_t, const Error& error) {
      if (message != nullptr) *message = error.what();
    });
    return newest && newest->manifest().step == 10 && holds_sample(*newest);
  }

  MemoryFs fs;
  CheckpointStore store;
};

constexpr const char* kShard = "shard-00000.safetensors";
constexpr const char* kOther = "shard-00001.safetensors";

size_t head_bytes(const std::string& content) {
  return static_cast<size_t>(
      safetensors_head_bytes(content, static_cast<int64_t>(content.size()), "test"));
}

TEST_F(Damage, TruncationAtEveryByte) {
  int64_t tried = 0, found = 0;
  for (const char* name : {kManifestName, kShard}) {
    const std::string whole = file(name);
    const size_t dense = std::string(name) == kManifestName ? whole.size() : head_bytes(whole);
    for (size_t n = 0; n < whole.size(); n += n < dense ? 1 : 32) {
      file(name) = whole.substr(0, n);
      ++tried;
      found += falls_back() ? 1 : 0;
    }
    file(name) = whole;
  }
  EXPECT_EQ(found, tried);
  fmt::print("truncations: {} tried, {} found, {} loaded wrongly\n", tried, found, tried - found);
}

TEST_F(Damage, EveryBitOfManifestAndHeader) {
  int64_t tried = 0, found = 0;
  for (const char* name : {kManifestName, kShard, kOther}) {
    std::string& content = file(name);
    const size_t bytes = std::string(name) == kManifestName ? content.size() : head_bytes(content);
    for (size_t bit = 0; bit < 8 * bytes; ++bit) {
      content[bit / 8] ^= static_cast<char>(1 << bit % 8);
      ++tried;
      try {
        Checkpoint::open(fs, store.path_of(20));
      } catch (const Error& error) {
        found += error.code() == ExitCode::bad_data ? 1 : 0;
      }
      content[bit / 8] ^= static_cast<char>(1 << bit % 8);
    }
  }
  EXPECT_EQ(found, tried);
  EXPECT_FALSE(falls_back());
  fmt::print("single-bit flips of manifest and headers: {} tried, {} found\n", tried, found);
}

TEST_F(Damage, RandomDataBits) {
  std::mt19937_64 rng(4);
  constexpr int kTries = 5000;
  int found = 0, named = 0;
  for (int i = 0; i < kTries; ++i) {
    const char* name = rng() % 2 == 0 ? kShard : kOther;
    std::string& content = file(name);
    const size_t head = head_bytes(content), at = head + rng() % (content.size() - head);
    const auto mask = static_cast<char>(1 << rng() % 8);
    content[at] ^= mask;
    std::string message;
    found += falls_back(&message) ? 1 : 0;
    named += message.find(name) != std::string::npos &&
                     message.find("tensor ") != std::string::npos &&
                     message.find("bytes ") != std::string::npos
                 ? 1
                 : 0;
    content[at] ^= mask;
  }
  EXPECT_EQ(found, kTries);
  EXPECT_EQ(named, kTries);
  fmt::print("random data flips: {} tried, {} found, {} with file, tensor and offset\n", kTries,
             found, named);
}

TEST_F(Damage, FilesThatAreNotTheirs) {
  const std::string shard = file(kShard), other = file(kOther);
  file(kShard).replace(head_bytes(shard), 64, 64, '\0');
  EXPECT_TRUE(falls_back()) << "zeroed";
  file(kShard) = other;
  file(kOther) = shard;
  EXPECT_TRUE(falls_back()) << "swapped";
  file(kOther) = other;
  file(kShard) = file(kShard, 10);
  EXPECT_TRUE(falls_back()) << "from another step";
  file(kShard) = shard + "x";
  EXPECT_TRUE(falls_back()) << "longer";
  file(kShard) = shard;
  fs.content(store.path_of(20) + "/" + kManifestName) = file(kManifestName, 10);
  EXPECT_TRUE(falls_back()) << "manifest from another step";
}

TEST_F(Damage, MissingAndExtraFiles) {
  fs.create(store.path_of(20) + "/extra");
  EXPECT_FALSE(falls_back()) << "a file nobody asked for changes nothing";
  fs.remove(store.path_of(20) + "/" + kOther);
  std::string message;
  EXPECT_TRUE(falls_back(&message));
  EXPECT_NE(message.find(kOther), std::string::npos);
  fs.remove(store.path_of(10) + "/" + kManifestName);
  EXPECT_FALSE(newest_verified(store));
}

// A manifest sealed again after the change: the content itself must make sense.
TEST_F(Damage, ResealedLies) {
  const std::string text = file(kManifestName);
  const auto reseal = [&](const std::string& from, const std::string& to) {
    file(kManifestName) = text;
    const size_t begin = text.find("\"content\":") + 10;
    std::string body = text.substr(begin, text.size() - begin - 2);
    const size_t at = body.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    body.replace(at, from.size(), to);
    file(kManifestName) =
        fmt::format("{{\"digest\":\"{}\",\n\"content\":{}}}\n", digest_of(body).hex(), body);
  };
  const auto refused = [&](const char* part) {
    EXPECT_ERROR(Checkpoint::open(fs, store.path_of(20)), ExitCode::bad_data, part);
  };
  reseal("\"version\":1", "\"version\":2");
  refused("format 2");
  reseal("\"format\":\"stretto", "\"format\":\"foreign");
  refused("not a checkpoint");
  const std::string named = fmt::format("\"name\":\"{}\"", kShard);
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string(".shard"),
        std::string("../shard"), std::string("a/b"), std::string("a b"), std::string(129, 'a')}) {
    reseal(named, fmt::format("\"name\":\"{}\"", name));
    refused("a name that none of a checkpoint has");
  }
  reseal(named, fmt::format("\"name\":\"{}\"", std::string(128, 'a')));
  EXPECT_ERROR(Checkpoint::open(fs, store.path_of(20)), ExitCode::no_input, "aaa");
  reseal("\"step\":20", "\"step\":-1");
  refused("step");
  reseal("\"step\":20", "\"stop\":20");
  refused("missing");
}

// A tensor without digests could be damaged unseen; digests without a tensor are of another file.
TEST_F(Damage, EveryTensorHasItsDigests) {
  const std::string text = file(kManifestName);
  const auto with = [&](const auto& change) {
    const size_t begin = text.find("\"content\":") + 10;
    auto content = nlohmann::json::parse(text.substr(begin, text.size() - begin - 2));
    change(content["files"][0]["tensors"]);
    const std::string body = content.dump();
    file(kManifestName) =
        fmt::format("{{\"digest\":\"{}\",\n\"content\":{}}}\n", digest_of(body).hex(), body);
  };
  with([](auto&) {});
  EXPECT_FALSE(falls_back()) << "sealed again as it was";
  with([](auto& tensors) { tensors.erase("vector"); });
  EXPECT_TRUE(falls_back());
  with([](auto& tensors) { tensors["none"] = tensors["vector"]; });
  EXPECT_TRUE(falls_back());
  with([](auto& tensors) {
    tensors["none"] = tensors["vector"];
    tensors.erase("vector");
  });
  EXPECT_TRUE(falls_back());
  with([](auto& tensors) { tensors["vector"].push_back(tensors["vector"][0]); });
  EXPECT_TRUE(falls_back());
  with([](auto& tensors) { tensors["vector"].clear(); });
  EXPECT_TRUE(falls_back());
}

TEST(Digest, IsReadBackAndNothingElseIs) {
  const Digest digest = digest_of("some bytes");
  const std::string hex = digest.hex();
  Digest read;
  ASSERT_TRUE(parse_digest(hex, read));
  EXPECT_EQ(read, digest);
  std::string upper = hex;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return c >= 'a' && c <= 'f' ? static_cast<char>(c - 32) : c; });
  ASSERT_NE(upper, hex);
  for (const std::string& bad : {upper, hex + "0", hex.substr(1), hex.substr(1) + "g", " " + hex,
                                 std::string(), std::string(32, '-')}) {
    EXPECT_FALSE(parse_digest(bad, read)) << bad;
  }
}

// Bytes that a file loses within its last page read as zeros, without a signal: who reads from it,
// alone or among others, hears of it.
TEST(DamageOnDisk, AFileThatShrinksAfterItWasOpenedIsFound) {
  for (const char* name : {kShard, kOther}) {
    const TempDir dir(Where::memory);
    CheckpointStore real(posix_fs(), dir / "c");
    save_sample(real, 10);
    const Checkpoint checkpoint = real.open(10);
    const std::string path = real.path_of(10) + "/" + name;
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    std::vector<float> values(700);
    const auto read = [&](const char* tensor, int64_t begin, int64_t count) {
      checkpoint.reader(tensor).read(begin, count, values.data());
    };
    EXPECT_ERROR(read("matrix", 0, 48), ExitCode::bad_data, name);
    const int64_t own = name == kShard ? 0 : 3;  // each has three columns of six
    EXPECT_ERROR(read("optimizer.m.matrix", 6 + own, 3), ExitCode::bad_data, name);
    EXPECT_NO_THROW(read("optimizer.m.matrix", 9 - own, 3)) << "of the other file";
  }
}

// Whoever reads one of them as the whole would place its elements wrongly.
TEST_F(Damage, ShardsOfDifferentTensorsDoNotMakeOne) {
  for (const bool same_shape : {true, false}) {
    MemoryFs own;
    CheckpointStore bad(own, kRoot);
    Shard a, b;
    a.add("x", {{2, 3}, {{0, 3, 0, 1}}}, DType::f32);
    b.add("x",
          {same_shape ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{3, 2}, {{3, 3, 0, 1}}},
          same_shape ? DType::bf16 : DType::f32);
    a.allocate(1);
    b.allocate(1);
    std::fill_n(a.at(0), 12, '\0');
    std::fill_n(b.at(0), same_shape ? 6 : 12, '\0');
    const std::string temp = bad.begin(1, 1, 100);
    bad.write_part(temp, 0, a, 1);
    bad.write_part(temp, 1, b, 1);
    bad.commit(temp, 2, {1, "{}", "{}", {}});
    EXPECT_ERROR(Checkpoint::open(own, bad.path_of(1)), ExitCode::bad_data, "disagree");
  }
}

// Two shards that both hold, or both lack, an element.
TEST_F(Damage, HolesAndOverlaps) {
  for (const int64_t begin : {0, 2}) {
    MemoryFs own;
    CheckpointStore bad(own, kRoot);
    Shard a, b;
    a.add("x", {{4}, {{begin, 2, 0, 1}}}, DType::f32);
    b.add("x", {{4}, {{begin == 0 ? 1 : 2, 2, 0, 1}}}, DType::f32);
    a.allocate(1);
    b.allocate(1);
    std::fill_n(a.at(0), 8, '\0');
    std::fill_n(b.at(0), 8, '\0');
    const std::string temp = bad.begin(1, 1, 100);
    bad.write_part(temp, 0, a, 1);
    bad.write_part(temp, 1, b, 1);
    bad.commit(temp, 2, {1, "{}", "{}", {}});
    EXPECT_ERROR(Checkpoint::open(own, bad.path_of(1)), ExitCode::bad_data,
                 begin == 0 ? "twice" : "missing");
  }
}

}  // namespace
}  // namespace stretto::test
