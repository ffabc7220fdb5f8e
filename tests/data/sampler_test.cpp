#include "data/sampler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <set>

#include "data/token_check.h"
#include "support/expect_error.h"

namespace stretto {
namespace {

std::unique_ptr<TokenSource> counting(int64_t tokens) {
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  std::iota(ids.begin(), ids.end(), 0);
  return memory_tokens("counting", std::move(ids));
}

RC_GTEST_PROP(Sampler, EverySampleOncePerEpoch, ()) {
  const auto tokens = *rc::gen::inRange<int64_t>(2, 3000);
  const auto T = *rc::gen::inRange<int64_t>(1, tokens);
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const auto source = counting(tokens);
  const Sampler sampler(*source, {T, tokens, seed, {}, true});
  const int64_t n = sampler.samples_per_epoch();
  RC_ASSERT(n == (tokens - 1) / T);
  for (const int64_t epoch : {0, 1, 5}) {
    std::set<int64_t> seen;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t position = sampler.position_of(epoch * n + i);
      RC_ASSERT(position % T == 0);
      RC_ASSERT(position + T < tokens);
      seen.insert(position);
    }
    RC_ASSERT(std::ssize(seen) == n);
  }
}

TEST(Sampler, BatchIsTheSameHoweverItIsSplit) {
  const auto source = counting(1001);
  const Sampler sampler(*source, {10, 1001, 42, {}, true});
  std::vector<int32_t> tokens(120), targets(120), part(40), part_targets(40);
  sampler.read_batch(95, 12, tokens, targets);  // crosses into the second epoch
  for (int rank = 0; rank < 3; ++rank) {
    sampler.read_batch(95 + 4 * rank, 4, part, part_targets);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), tokens.begin() + 40 * rank));
    EXPECT_TRUE(std::equal(part_targets.begin(), part_targets.end(), targets.begin() + 40 * rank));
  }
  for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(targets[i], tokens[i] + 1);
}

// The order is part of the checkpoint contract: a run resumed by a later version must go on with
// the same samples. This test pins it.
TEST(Sampler, OrderIsPinned) {
  const auto source = counting(101);
  const Sampler sampler(*source, {10, 101, 1234, {}, true});
  std::vector<int64_t> order;
  for (int64_t i = 0; i < 20; ++i) order.push_back(sampler.position_of(i) / 10);
  EXPECT_EQ(order,
            (std::vector<int64_t>{9, 4, 3, 6, 2, 7, 1, 8, 0, 5, 5, 4, 1, 0, 3, 6, 7, 9, 8, 2}));
}

TEST(Sampler, SeedsAndEpochsDiffer) {
  const auto source = counting(10001);
  const Sampler a(*source, {10, 10001, 1, {}, true}), b(*source, {10, 10001, 2, {}, true});
  int same_seed = 0, same_epoch = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    same_seed += a.position_of(i) == b.position_of(i);
    same_epoch += a.position_of(i) == a.position_of(1000 + i);
  }
  EXPECT_LT(same_seed, 20);
  EXPECT_LT(same_epoch, 20);
}

// All zeros but for one id, and what was read of it.
class OneOddId final : public TokenSource {
 public:
  OneOddId(int64_t tokens, int64_t odd) : tokens_(tokens), odd_(odd) {}

  int64_t tokens() const override { return tokens_; }
  std::string format() const override { return "test"; }
  std::string name() const override { return "one odd id"; }
  void read(int64_t begin, std::span<int32_t> out) const override {
    const int64_t end = begin + std::ssize(out);
    ASSERT_TRUE(begin >= 0 && end <= tokens_) << begin << " to " << end << " of " << tokens_;
    std::fill(out.begin(), out.end(), 0);
    if (odd_ >= begin && odd_ < end) out[static_cast<size_t>(odd_ - begin)] = 7;
    read_ += std::ssize(out);
    first_ = std::min(first_, begin);
    last_ = std::max(last_, end);
  }

  mutable int64_t read_ = 0, first_ = INT64_MAX, last_ = 0;

 private:
  int64_t tokens_, odd_;
};

TEST(Sampler, IdOutsideVocabularyIsNamed) {
  const auto source = counting(100);
  const Sampler sampler(*source, {9, 50, 0, {}, false});
  std::vector<int32_t> tokens(9), targets(9);
  sampler.read_batch(0, 1, tokens, targets);
  EXPECT_ERROR(sampler.read_batch(5, 1, tokens, targets), ExitCode::bad_data,
               "counting: token 50 has id 50, outside the vocabulary of 50");
}

// Wherever it lies, among the inputs or as the last target, which no input of the sample has.
TEST(Sampler, NoIdOfASampleIsUnchecked) {
  constexpr int64_t kLength = 9;
  std::vector<int32_t> tokens(2 * kLength), targets(2 * kLength);
  for (int64_t odd = 0; odd <= 3 * kLength; ++odd) {
    const OneOddId source(3 * kLength + 1, odd);
    const Sampler sampler(source, {kLength, 7, 0, {}, false});
    const auto read = [&] { sampler.read_batch(0, 2, tokens, targets); };
    if (odd > 2 * kLength) {
      EXPECT_NO_THROW(read()) << odd;
    } else {
      EXPECT_ERROR(read(), ExitCode::bad_data, fmt::format("token {} has id 7", odd));
    }
  }
}

TEST(LookOver, FindsTheOneOddIdOfASmallSource) {
  for (const int64_t tokens : {1, 2, 1 << 18, (1 << 18) + 1, 5 * (1 << 18) - 3, 1'000'003}) {
    for (const int64_t odd : {int64_t{0}, tokens / 3, tokens / 2, tokens - 1}) {
      const OneOddId source(tokens, odd);
      look_over(source, 8);
      const std::string text =
          fmt::format("one odd id: token {} has id 7, outside the vocabulary of 7", odd);
      EXPECT_ERROR(look_over(source, 7), ExitCode::bad_data, text);
      int found = 0;  // by those who share the work
      for (int part = 0; part < 3; ++part) {
        try {
          look_over(source, 7, part, 3);
        } catch (const Error&) {
          ++found;
        }
      }
      EXPECT_TRUE(found == 1 || found == 2) << found << " of " << tokens;  // neighbours may overlap
    }
  }
}

TEST(LookOver, ReadsABoundedPartOfALargeSource) {
  for (const int64_t tokens : {int64_t{1} << 27, (int64_t{1} << 40) + 12345}) {
    const OneOddId source(tokens, -1);
    for (int part = 0; part < 2; ++part) look_over(source, 7, part, 2);
    EXPECT_EQ(source.read_, int64_t{1} << 26);
    EXPECT_EQ(source.first_, 0);
    EXPECT_EQ(source.last_, tokens);
  }
}

TEST(Sampler, TooShortIsAnError) {
  const auto source = counting(8);
  EXPECT_ERROR(Sampler(*source, {8, 8, 0, {}, true}), ExitCode::bad_data, "too few");
  EXPECT_ERROR(Sampler(*source, {8, 8, 0, {0, 1}, true}), ExitCode::bad_data, "1 token is too few");
  EXPECT_EQ(Sampler(*source, {7, 8, 0, {}, true}).samples_per_epoch(), 1);
}

RC_GTEST_PROP(SplitTail, PartsAreDisjointAndCover, ()) {
  const auto T = *rc::gen::inRange<int64_t>(1, 50);
  const auto tokens = *rc::gen::inRange<int64_t>(2 * T + 2, 5000);
  const double fraction = *rc::gen::inRange(1, 99) / 100.0;
  const auto source = counting(tokens);
  const auto [train, held_out] = split_tail(*source, T, fraction);
  RC_ASSERT(train.begin == 0 && train.end == held_out.begin && held_out.end == tokens);
  RC_ASSERT(Sampler(*source, {T, tokens, 0, train, true}).samples_per_epoch() >= 1);
  RC_ASSERT(Sampler(*source, {T, tokens, 0, held_out, false}).samples_per_epoch() >= 1);
}

TEST(SplitTail, Edges) {
  const auto source = counting(100);
  EXPECT_EQ(split_tail(*source, 10, 0).first.end, 100);
  EXPECT_EQ(split_tail(*source, 10, 0.2).first.end, 80);
  EXPECT_ERROR(split_tail(*source, 60, 0.2), ExitCode::bad_data, "held-out");
}

}  // namespace
}  // namespace stretto
