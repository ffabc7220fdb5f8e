// "Did you mean": which words are close enough, and in which order.
#include "config/suggest.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

using Words = std::vector<std::string>;

TEST(Suggest, OneEditInThreeLettersIsClose) {
  EXPECT_EQ(nearest_words("layrs", {"layers", "heads"}), Words{"layers"});
  EXPECT_EQ(nearest_words("lyaers", {"layers"}), Words{"layers"}) << "neighbours swapped: one edit";
  EXPECT_EQ(nearest_words("abc", {"abd"}), Words{"abd"});
  EXPECT_EQ(nearest_words("abc", {"axd"}), Words{});
  EXPECT_EQ(nearest_words("abcdef", {"abxyef"}), Words{"abxyef"});
  EXPECT_EQ(nearest_words("abcdef", {"axyzef"}), Words{});
  EXPECT_EQ(nearest_words("ba", {"ab"}), Words{"ab"});
  EXPECT_EQ(nearest_words("LAYERS", {"Layers"}), Words{"Layers"});
  EXPECT_EQ(nearest_words("", {"a"}), Words{});
  EXPECT_EQ(nearest_words(std::string(81, 'a'), {std::string(81, 'a')}), Words{});
}

TEST(Suggest, AnAbbreviationIsCloseToWhatItBegins) {
  EXPECT_EQ(nearest_words("gpt2", {"gpt2-124m", "gpt3", "mpt-125m"}), (Words{"gpt2-124m", "gpt3"}));
  EXPECT_EQ(nearest_words("gp", {"gpt2-124m"}), Words{}) << "two letters begin too much";
}

// The best first, equals as they come, and none that is clearly worse than the best.
TEST(Suggest, WordsAreOrderedByTheirDistance) {
  EXPECT_EQ(nearest_words("micro_batch", {"micro_batches", "micro_batch"}), Words{"micro_batch"});
  EXPECT_EQ(nearest_words("micro_batc", {"micro_batches", "micro_batch"}), (Words{"micro_batch"}));
  EXPECT_EQ(nearest_words("abcdefghi", {"abcdefgxy", "abcdefghx"}),
            (Words{"abcdefghx", "abcdefgxy"}));
  EXPECT_EQ(nearest_words("abc", {"abd", "abe", "abf", "abg"}), (Words{"abd", "abe", "abf"}));
  EXPECT_EQ(nearest_words("abc", {"abd", "abe"}, 1), Words{"abd"});
}

TEST(Suggest, SaysItInWords) {
  EXPECT_EQ(join_or({}), "");
  EXPECT_EQ(join_or({"1"}), "1");
  EXPECT_EQ(join_or({"1", "2", "4"}), "1, 2 or 4");
  EXPECT_EQ(did_you_mean("layrs", {"layers"}, "x"), "did you mean 'layers'?");
  EXPECT_EQ(did_you_mean("q", {"layers"}, "see there"), "see there");
}

}  // namespace
}  // namespace stretto
