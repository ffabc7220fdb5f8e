// A mistake on the command line names the mistake and the way on, and exits 64.
#include <fstream>

#include "support/run_verb.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

TEST(Usage, UnknownVerbSuggestsTheNearest) {
  const VerbAnswer answer = run_verb({"trian", "tiny"});
  EXPECT_EQ(answer.code, 64);
  EXPECT_EQ(answer.out, "");
  EXPECT_NE(answer.err.find("there is no verb 'trian'"), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find("did you mean 'train'?"), std::string::npos) << answer.err;
}

TEST(Usage, UnknownVerbOfAGroupDoesSo) {
  const VerbAnswer answer = run_verb({"config", "-q", "shw"});
  EXPECT_EQ(answer.code, 64);
  EXPECT_NE(answer.err.find("there is no verb 'config shw'"), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find("did you mean 'show'?"), std::string::npos) << answer.err;
  EXPECT_NE(run_verb({"config", "zzz"}).err.find("`stretto config --help`"), std::string::npos);
}

TEST(Usage, UnknownModelsHaveOneCode) {
  for (const char* verb : {"models", "flops", "plan", "train"}) {
    EXPECT_EQ(run_verb({verb, "mptt-7b"}).code, 66) << verb;
  }
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

// Before the verb and after it; of both, the one that says more counts.
TEST(Usage, AnyVerbMayBeQuietOrVerbose) {
  const std::vector<std::string> verify{"verify",         "gpt2-124m",
                                        "seq_len=8",      "micro_batch=1",
                                        "model.layers=1", "model.hidden=16",
                                        "model.heads=1",  "model.vocab=64",
                                        "--steps",        "1",
                                        "--ranks",        "1"};
  const auto says = [&](std::vector<std::string> before, std::vector<std::string> after) {
    std::vector<std::string> words = std::move(before);
    words.insert(words.end(), verify.begin(), verify.end());
    words.insert(words.end(), after.begin(), after.end());
    const VerbAnswer answer = run_verb(words);
    EXPECT_EQ(answer.code, 0) << answer.err;
    EXPECT_NE(answer.out, "");
    return answer.err.find("info:") != std::string::npos;
  };
  EXPECT_TRUE(says({}, {}));
  EXPECT_FALSE(says({"-q"}, {}));
  EXPECT_FALSE(says({}, {"--quiet"}));
  EXPECT_TRUE(says({}, {"-v"}));
  EXPECT_TRUE(says({"-q"}, {"-v"}));
  EXPECT_EQ(run_verb({"verify", "-x", "gpt2-124m"}).code, 64);
  EXPECT_NE(run_verb({"-q", "trian"}).err.find("did you mean 'train'?"), std::string::npos);
}

TEST(Usage, VerifyIsOneProcess) {
  setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  const VerbAnswer answer = run_verb({"verify", "tiny", "--steps", "1"});
  unsetenv("OMPI_COMM_WORLD_RANK");
  unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(answer.code, 64);
  EXPECT_NE(answer.err.find("one process"), std::string::npos) << answer.err;
}

TEST(Usage, NumbersOutOfRangeAndEmptyPathsAreRefused) {
  const std::vector<std::vector<std::string>> cases = {
      {"eval", "run", "file", "--batch", "0"},
      {"eval", "run", "file", "--batch", "nan"},
      {"eval", "run", "file", "--tokens", "-1"},
      {"train", "-n", "0", "tiny"},
      {"export", "run", "-o", "out", "--shard-gb", "nan"},
      {"export", "run", "-o", ""},
      {"compare", "a", "b", "--tolerance", "nan"},
      {"sweep", "-m", "tiny", "--run", "--steps", "0"},
      {"sweep", "-m", "tiny", "--run", "--timeout", "0s"},
      {"sweep", "-m", "tiny", "--accum", "0"},
      {"sweep", "missing.yaml", "--offload"},
      {"sweep", "missing.yaml", "--wait"},
      {"sweep", "missing.yaml", "--partition", "night"},
      {"sweep", "missing.yaml", "--launcher", "mpirun", "--account", "me"},
      {"bench", "missing.yaml", "--steps", "0"},
      {"bench", "missing.yaml", "--steps", "9223372036854775807"},
      {"bench", "missing.yaml", "--warmup", "9223372036854775807"},
      {"plan", "calibrate", "missing.csv", "--propose", "-1"},
      {"reference", "check", "--dir", ""},
      {"plan", "mpt-7b", "--top", "0"},
      {"generate", "run", "-t", "inf"},
      {"data", "prepare", "in", "-o", "out", "--threads", "1000000"}};
  for (const auto& words : cases) {
    const VerbAnswer answer = run_verb(words);
    EXPECT_EQ(answer.code, 64) << words[0] << " " << words.back() << ": " << answer.err;
    EXPECT_EQ(answer.out, "") << words[0];
  }
  EXPECT_EQ(run_verb({"doctor", "--quick", "--disk", "/nope"}).code, 66);
  EXPECT_EQ(run_verb({"-q", "--version"}).out, run_verb({"version"}).out);
}

TEST(Usage, FilesWithoutWhatTheyShouldHoldAreRefused) {
  const TempDir dir;
  const std::string nothing = dir.write("machine.json", "{}");
  const VerbAnswer bench = run_verb({"bench", "tiny", "--machine", nothing});
  EXPECT_EQ(bench.code, 65) << bench.err;
  EXPECT_NE(bench.err.find("describes no machine"), std::string::npos) << bench.err;
  for (const char* table : {"mpt", "mosaicgpt", "bloom", "fugaku"}) {  // headers alone
    std::ifstream whole(std::string(STRETTO_SOURCE_DIR "/reference/") + table + ".csv");
    std::string header;
    std::getline(whole, header);
    dir.write(std::string(table) + ".csv", header + "\n");
  }
  const VerbAnswer exam = run_verb({"plan", "exam", "--dir", dir.path()});
  EXPECT_EQ(exam.code, 65) << exam.err;
}

// A grid without a single cut model would prove nothing.
TEST(Usage, VerifyWantsATopology) {
  const VerbAnswer answer = run_verb(
      {"verify", "gpt2-124m", "seq_len=8", "model.layers=1", "model.hidden=16", "model.heads=1",
       "model.vocab=64", "micro_batch=1", "global_batch=1", "--steps", "1", "--ranks", "4"});
  EXPECT_EQ(answer.code, 78) << answer.err;
  EXPECT_NE(answer.err.find("no topology of 2 to 4 ranks"), std::string::npos) << answer.err;
}

TEST(Usage, TuneSaysWhatItCannotTune) {
  const auto refused = [](std::vector<std::string> more, int code, const std::string& text) {
    std::vector<std::string> words{"tune",          "gpt2-124m",      "seq_len=8",
                                   "micro_batch=1", "model.layers=1", "model.hidden=16",
                                   "model.heads=1", "model.vocab=64"};
    words.insert(words.end(), more.begin(), more.end());
    const VerbAnswer answer = run_verb(words);
    EXPECT_EQ(answer.code, code) << answer.err;
    EXPECT_EQ(answer.out, "");
    EXPECT_NE(answer.err.find(text), std::string::npos) << answer.err;
  };
  refused({"device=cpu"}, 78, "device=cpu has nothing to tune");
  refused({"parallel.dp=2", "global_batch=2"}, 78, "tuning with 2 ranks");
  refused({"--turns", "1"}, 64, "--turns: 1 is not between 2");
  refused({"--draws", "0"}, 64, "--draws: 0 is not between 1");
  refused({"--settle", "-1"}, 64, "--settle: -1 is not between 0");
  refused({"--settle", "nan"}, 64, "--settle: nan is not between 0");
}

}  // namespace
}  // namespace stretto
