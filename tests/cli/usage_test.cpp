// A mistake on the command line names the mistake and the way on, and exits 64.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/shell_text.h"
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

TEST(Usage, UnknownOptionsSuggestTheNearest) {
  struct Case {
    std::vector<std::string> words;
    std::string option, meant;
  };
  for (const auto& [words, option, meant] :
       {Case{{"generate", "d", "--temprature", "1"}, "--temprature", "--temperature"},
        Case{{"plan", "exam", "--row"}, "--row", "--rows"},
        Case{{"train", "tiny", "--rank=2"}, "--rank", "--ranks"},
        Case{{"train", "--rank"}, "--rank", "--ranks"},  // rather than that words are missing
        Case{{"report", "d", "--quite"}, "--quite", "--quiet"}}) {
    const VerbAnswer answer = run_verb(words);
    EXPECT_EQ(answer.code, 64) << option;
    EXPECT_NE(answer.err.find(": there is no option " + option + "\n"), std::string::npos)
        << answer.err;
    EXPECT_NE(answer.err.find("did you mean '" + meant + "'?"), std::string::npos) << answer.err;
  }
}

TEST(Usage, WordsThatAreTooManyStandInTheirOrder) {
  const VerbAnswer answer = run_verb({"collect", "a", "b", "c"});
  EXPECT_EQ(answer.code, 64);
  EXPECT_NE(answer.err.find("collect: not expected: b c\n"), std::string::npos) << answer.err;
}

// Options of other programs are words here.
TEST(Usage, AnOptionThatIsASettingIsWrittenOut) {
  const std::pair<const char*, const char*> cases[] = {
      {"--lr", "train.lr=VALUE"},
      {"--tensor-model-parallel-size", "parallel.tp=VALUE"},
      {"--train-iters=5", "train.steps=VALUE"},
      {"--save-interval", "checkpoint.every=VALUE"}};
  for (const auto& [option, word] : cases) {
    const VerbAnswer answer = run_verb({"train", "tiny", option, "3"});
    EXPECT_EQ(answer.code, 64) << option;
    EXPECT_NE(answer.err.find(word), std::string::npos) << answer.err;
  }
  EXPECT_EQ(run_verb({"train", "tiny", "--colour", "3"}).err.find("VALUE"), std::string::npos);
  // Verbs without a configuration have no words.
  EXPECT_EQ(run_verb({"report", "runs", "--output", "x"}).err.find("VALUE"), std::string::npos);
}

// The names of verbs below "Subcommands:" in a help text.
std::vector<std::string> verbs_in(const std::string& help) {
  std::vector<std::string> verbs;
  const size_t list = help.find("Subcommands:\n");
  std::istringstream lines(list == std::string::npos ? "" : help.substr(list));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    if (line.starts_with("  ") && line.size() > 2 && line[2] != ' ') {
      verbs.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  return verbs;
}

// The examples of a help text that take no time, files of one's own or a shell; a line that ends
// in a backslash goes on in the next one.
std::vector<std::vector<std::string>> quick_examples(const std::string& help) {
  std::vector<std::vector<std::string>> examples;
  std::istringstream lines(help.substr(0, help.find("Usage: ")));
  for (std::string line, more; std::getline(lines, line);) {
    while (line.ends_with('\\') && std::getline(lines, more)) {
      line = line.substr(0, line.size() - 1) + more.substr(more.find_first_not_of(' '));
    }
    if (!line.starts_with("  stretto ")) continue;
    line = line.substr(10, line.find("  ", 10) - 10);  // a remark stands behind two spaces
    std::istringstream split(line);
    std::vector<std::string> words{std::istream_iterator<std::string>(split), {}};
    const std::string& verb = words[0];
    const bool quick = verb == "plan" || verb == "flops" || verb == "config" || verb == "models" ||
                       verb == "version" || verb == "reference";
    const bool own = std::any_of(words.begin(), words.end(), [](const std::string& word) {
      return word == ">" || word == "local" || word == "exam" || word == "compare" ||
             word == "calibrate" || word == "run.yaml" || word == "my_tables";
    });
    if (quick && !own) examples.push_back(std::move(words));
  }
  return examples;
}

void expect_examples(const std::vector<std::string>& verb, size_t& seen) {
  std::vector<std::string> words = verb;
  words.push_back("--help");
  const std::string help = run_verb(words).out;
  const std::string name = verb.empty() ? "" : verb.front() + " " + verb.back();
  const size_t examples = help.find("\n\nExamples:\n  "), usage = help.find("\n\nUsage: ");
  EXPECT_NE(examples, std::string::npos) << name;
  EXPECT_LT(examples, usage) << name;
  ++seen;
  for (const std::vector<std::string>& words_of : quick_examples(help)) {
    const VerbAnswer answer = run_verb(words_of);
    EXPECT_EQ(answer.code, 0) << name << ": " << words_of[0] << " " << words_of[1] << answer.err;
  }
  for (const std::string& below : verbs_in(help)) {
    std::vector<std::string> longer = verb;
    longer.push_back(below);
    expect_examples(longer, seen);
  }
}

TEST(Usage, EveryHelpIsALineThenExamplesThatRun) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(STRETTO_SOURCE_DIR);  // configs/runs/tiny.yaml
  size_t seen = 0;
  expect_examples({}, seen);
  std::filesystem::current_path(before);
  EXPECT_GT(seen, 35u);  // verbs and those below them
}

TEST(Usage, KeysAreListedWithDefaultsMeaningAndValues) {
  const VerbAnswer all = run_verb({"config", "keys"});
  EXPECT_EQ(all.code, 0);
  for (const char* part : {"model.layers ", "precision ", "train.lr ", "log.every "}) {
    EXPECT_NE(all.out.find(std::string("\n") + part), std::string::npos) << part;
  }
  const VerbAnswer few = run_verb({"config", "keys", "Schedule"});
  EXPECT_EQ(few.code, 0);
  EXPECT_NE(few.out.find("parallel.schedule  1f1b     order of pipeline work [gpipe"),
            std::string::npos)
      << few.out;
  EXPECT_EQ(few.out.find("train.lr"), std::string::npos) << few.out;
  const std::string clock = run_verb({"config", "keys", "gpu_clock"}).out;
  EXPECT_NE(clock.find("[MHz or auto]"), std::string::npos) << clock;
  EXPECT_EQ(run_verb({"config", "keys", "colour"}).code, 64);
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
  const std::string counted = run_verb(verify).err;
  EXPECT_NE(counted.find("info: [1/"), std::string::npos) << counted;
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

TEST(Usage, CompareRefusesOptionsOfBenchWithoutIt) {
  for (const char* option : {"--runs", "--steps", "--seconds", "--out"}) {
    const VerbAnswer answer = run_verb({"compare", "a", "b", option, "3"});
    EXPECT_EQ(answer.code, 64) << option << ": " << answer.err;
    EXPECT_NE(answer.err.find(std::string(option) + " without --bench"), std::string::npos)
        << answer.err;
  }
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

// What `doctor` left, or a sweep: cut off, or with other things in it than it should have.
TEST(Usage, ADamagedMachineFileIsNamed) {
  const TempDir dir;
  for (const char* damage : {"", R"({"cpu": {"mod)", "[]", R"({"cpu": 3})",
                             R"({"cpu": {"usable": "two"}})", R"({"cpu": {}, "gpu": 1})"}) {
    const std::string file = dir.write("machine.json", damage);
    for (const auto& words : std::vector<std::vector<std::string>>{
             {"bench", "tiny", "--machine", file},
             {"plan", "tiny", "--cluster", "local", "--machine", file},
             {"sweep", "-m", "tiny", "--out", dir.path()}}) {
      const VerbAnswer answer = run_verb(words);
      EXPECT_EQ(answer.code, 65) << words[0] << " with " << damage << ": " << answer.err;
      EXPECT_NE(answer.err.find(file + ": "), std::string::npos) << words[0] << ": " << answer.err;
    }
  }
}

TEST(Usage, TheReportOfOneRecordLiesBesideIt) {
  const TempDir dir;
  const std::string record = dir / "run.json";
  std::filesystem::copy_file(STRETTO_SOURCE_DIR "/tests/fuzz/corpus/record/dp2.json", record);
  const VerbAnswer answer = run_verb({"report", record});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_TRUE(std::filesystem::exists(dir / "report.html")) << answer.out;
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
  refused({"device=cuda", "precision=amp_bf16", "gpu_clock=auto"}, 78,
          "gpu_clock=auto would change the clock");
  refused({"--turns", "1"}, 64, "--turns: 1 is not between 2");
  refused({"--draws", "0"}, 64, "--draws: 0 is not between 1");
  refused({"--settle", "-1"}, 64, "--settle: -1 is not between 0");
  refused({"--settle", "nan"}, 64, "--settle: nan is not between 0");
}

// The file may be submitted from anywhere.
TEST(SlurmVerb, PathsBeginWhereTheFileWasWritten) {
  const std::filesystem::path before = std::filesystem::current_path();
  const TempDir dir;
  std::filesystem::create_directory(dir / "it's here");
  std::filesystem::current_path(dir / "it's here");
  const VerbAnswer answer = run_verb({"slurm", "tiny", "data.path=text.txt", "output=runs/a"});
  const std::string here = std::filesystem::current_path().string();
  std::filesystem::current_path(before);
  EXPECT_EQ(answer.code, 0) << answer.err;
  const std::string there = "\ncd " + shell_quoted(here) + " || exit 66\n";
  EXPECT_NE(answer.out.find(there), std::string::npos) << answer.out;
}

TEST(SlurmVerb, NodesAreThoseThatRanksCanBeDealtTo) {
  const std::vector<std::string> job = {"slurm",           "mpt-7b",      "parallel.dp=64",
                                        "global_batch=64", "device=cuda", "output=runs/a"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words = job;
    words.insert(words.end(), more.begin(), more.end());
    return run_verb(words);
  };
  VerbAnswer answer = with({});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.err.find("64 GPUs on each node, more than nodes usually have; -N 8 puts 8 on "
                            "each"),
            std::string::npos)
      << answer.err;
  answer = with({"parallel.dp=13", "global_batch=13"});  // which nothing divides
  EXPECT_NE(answer.err.find("13 GPUs on each node, more than nodes usually have\n"),
            std::string::npos)
      << answer.err;
  answer = with({"-N", "8"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.err.find("GPUs on each node"), std::string::npos) << answer.err;
  EXPECT_NE(answer.out.find("--gpus-per-node=8\n"), std::string::npos) << answer.out;
  answer = with({"-N", "3"});
  EXPECT_EQ(answer.code, 64) << answer.err;
  EXPECT_EQ(answer.out, "");
  EXPECT_NE(answer.err.find("use -N 1, 2, 4, 8, 16, 32 or 64"), std::string::npos) << answer.err;
}

}  // namespace
}  // namespace stretto
