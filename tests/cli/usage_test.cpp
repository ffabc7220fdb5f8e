// A mistake on the command line names the mistake and the way on, and exits 64.
#include "support/run_verb.h"

namespace stretto {
namespace {

TEST(Usage, UnknownVerbSuggestsTheNearest) {
  const VerbAnswer answer = run_verb({"trian", "tiny"});
  EXPECT_EQ(answer.code, 64);
  EXPECT_EQ(answer.out, "");
  EXPECT_NE(answer.err.find("there is no verb 'trian'"), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find("did you mean 'train'?"), std::string::npos) << answer.err;
}

TEST(Usage, MissingWordsAndUnknownOptionsPointToTheVerbsHelp) {
  struct Case {
    std::vector<std::string> words;
    std::string verb;
  };
  for (const auto& [words, verb] :
       {Case{{"flops"}, "flops"}, Case{{"config", "show"}, "config show"},
        Case{{"train", "--x"}, "train"}, Case{{"plan", "exam", "--x"}, "plan exam"}}) {
    const VerbAnswer answer = run_verb(words);
    EXPECT_EQ(answer.code, 64) << verb;
    EXPECT_EQ(answer.out, "") << verb;
    EXPECT_NE(answer.err.find("`stretto " + verb + " --help`"), std::string::npos) << answer.err;
  }
}

TEST(Usage, NoWordsAtAllShowTheHelp) {
  const VerbAnswer answer = run_verb({});
  EXPECT_EQ(answer.code, 0);
  EXPECT_EQ(answer.out, run_verb({"--help"}).out);
  EXPECT_LT(answer.out.find("Examples:"), answer.out.find("Usage:"));
}

}  // namespace
}  // namespace stretto
