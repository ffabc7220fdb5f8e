// What programs read: with --json a verb prints JSON, without it text.
#include <nlohmann/json.hpp>

#include "support/run_verb.h"

namespace stretto {
namespace {

TEST(Json, IsPrintedWhereItIsAskedForAndOnlyThere) {
  const std::vector<std::string> commands[] = {
      {"config", "check", "tiny"},
      {"config", "show", "tiny"},
      {"flops", "tiny"},
      {"models"},
      {"models", "tiny"},
      {"plan", "tiny", "--cluster", "h100", "--gpus", "8"},
      {"reference", "show", "mpt", "--dir", STRETTO_SOURCE_DIR "/reference"},
      {"verify", "tiny-100k", "seq_len=16", "global_batch=2", "micro_batch=1", "threads=1",
       "--ranks", "1", "--steps", "1"},
      {"version"},
  };
  for (std::vector<std::string> words : commands) {
    const VerbAnswer text = run_verb(words);
    EXPECT_EQ(text.code, 0) << words[0] << text.err;
    EXPECT_FALSE(nlohmann::json::accept(text.out)) << words[0] << "\n" << text.out;
    words.emplace_back("--json");
    const VerbAnswer data = run_verb(words);
    EXPECT_EQ(data.code, 0) << words[0] << data.err;
    EXPECT_TRUE(nlohmann::json::accept(data.out)) << words[0] << "\n" << data.out;
  }
}

}  // namespace
}  // namespace stretto
