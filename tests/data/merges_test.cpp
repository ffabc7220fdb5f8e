// Byte-pair encoding against its definition, in pieces of any length.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <random>

#include "data/encoder.h"
#include "data/tokenizer.h"

namespace stretto {
namespace {

using Ids = std::vector<int32_t>;

Ids encoded(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  Encoder(tokenizer).encode(text, ids);
  return ids;
}

// The naive definition of BPE: apply the merges in order of rank, wherever they fit.
Ids naive_bpe(const Tokenizer& tokenizer, std::string_view piece) {
  Ids ids;
  for (const char c : piece) ids.push_back(tokenizer.byte_id(static_cast<unsigned char>(c)));
  while (true) {
    uint32_t best = Tokenizer::kNoRank;
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const uint32_t rank = tokenizer.merge_of(ids[i], ids[i + 1]).rank;
      if (rank < best) best = rank, at = i;
    }
    if (best == Tokenizer::kNoRank) return ids;
    ids[at] = tokenizer.merge_of(ids[at], ids[at + 1]).result;
    ids.erase(ids.begin() + ptrdiff_t(at) + 1);
  }
}

RC_GTEST_PROP(Encoder, LongAndShortPiecesFollowTheDefinition, ()) {
  static const Tokenizer tokenizer =
      load_tokenizer(STRETTO_SOURCE_DIR "/tests/goldens/tokenizer/gpt2.json");
  const auto length = *rc::gen::inRange(1, 900);
  const auto piece = *rc::gen::container<std::string>(size_t(length),
                                                      rc::gen::elementOf(std::string("theinovrs")));
  RC_ASSERT(encoded(tokenizer, piece) == naive_bpe(tokenizer, piece));
}

// Merges of a few letters with each other and themselves, so that equal pairs overlap everywhere
// and a merge may make room for one of lower rank. Some pairs have two entries.
Tokenizer tangled_tokenizer(uint64_t seed) {
  TokenizerSpec spec = byte_tokenizer().spec();
  std::mt19937_64 rng(seed);
  std::vector<int32_t> known = {'a', 'b', 'c'};
  std::map<std::string, int32_t> ids;
  for (int i = 0; i < 40; ++i) {
    const int32_t left = known[rng() % known.size()], right = known[rng() % known.size()];
    const std::string bytes = spec.tokens[size_t(left)] + spec.tokens[size_t(right)];
    if (bytes.size() > 8) continue;
    const auto [found, fresh] = ids.emplace(bytes, static_cast<int32_t>(spec.tokens.size()));
    if (fresh) {
      spec.tokens.push_back(bytes);
      known.push_back(found->second);
    }
    spec.merges.push_back({left, right, found->second});
  }
  return {std::move(spec), "tangled"};
}

TEST(Encoder, OfEqualPairsTheLeftmostIsMergedInPiecesOfAnyLength) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Tokenizer tokenizer = tangled_tokenizer(seed);
    std::mt19937_64 rng(seed);
    for (const size_t length : {2, 31, 32, 33, 255, 256, 257, 600}) {
      std::string piece(length, 'a');
      const size_t letters = 1 + rng() % 3;
      for (char& c : piece) c = static_cast<char>('a' + rng() % letters);
      ASSERT_EQ(encoded(tokenizer, piece), naive_bpe(tokenizer, piece)) << seed << " " << piece;
    }
  }
}

// As in other readers of these files.
TEST(Tokenizer, OfTwoEntriesOfAPairTheLaterCounts) {
  TokenizerSpec spec = byte_tokenizer().spec();
  for (const char* token : {"ab", "bc"}) spec.tokens.emplace_back(token);
  const Merge ab{'a', 'b', 256}, bc{'b', 'c', 257};
  const auto of_abc = [&](std::vector<Merge> merges) {
    spec.merges = std::move(merges);
    return encoded(Tokenizer(spec, "t"), "abc");
  };
  EXPECT_EQ(of_abc({ab, bc}), (Ids{256, 'c'}));
  EXPECT_EQ(of_abc({ab, bc, ab}), (Ids{'a', 257}));
  EXPECT_EQ(of_abc({bc, ab, bc}), (Ids{256, 'c'}));
}

}  // namespace
}  // namespace stretto
