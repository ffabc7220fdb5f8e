// The config and models verbs as a user runs them: output, streams and exit codes.
#include <nlohmann/json.hpp>

#include "config/support.h"
#include "support/run_verb.h"

namespace stretto {
namespace {

TEST(ConfigVerb, CheckPrintsEveryFinding) {
  EXPECT_EQ(run_verb({"config", "check", "tiny"}).code, 0);
  const VerbAnswer bad = run_verb({"config", "check", "tiny", "parallel.tp=8", "train.lr=0"});
  EXPECT_EQ(bad.code, 78);
  EXPECT_CONTAINS(bad.out, "error [heads-tp]  command line  parallel.tp: 8");
  EXPECT_CONTAINS(bad.out, "error [learning-rate]");
  EXPECT_CONTAINS(bad.out, "  fix: use 1, 2 or 4");
  EXPECT_CONTAINS(bad.out, "not valid: 2 errors");
  const VerbAnswer json = run_verb({"config", "check", "tiny", "model.hidden=48", "--json"});
  EXPECT_EQ(json.code, 0);
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["ok"], true);
  EXPECT_EQ(document["findings"][0]["rule"], "head-size");
}

// An export would refuse it, after the training.
TEST(ConfigVerb, CheckAdvisesOnExports) {
  const std::vector<std::string> words = {"config", "check", "tiny-100k",
                                          "model.position_kind=alibi"};
  const auto with = [&](const std::string& word, const std::string& form = "") {
    std::vector<std::string> all = words;
    for (const std::string& more : {word, form}) {
      if (!more.empty()) all.push_back(more);
    }
    return run_verb(all);
  };
  const VerbAnswer biased = with("");
  EXPECT_EQ(biased.code, 0);
  EXPECT_CONTAINS(biased.out, "advice [export]  model tiny-100k  model.bias: true");
  EXPECT_CONTAINS(biased.out,
                  "prevents exports: in mpt, the format for model.position_kind: alibi "
                  "(command line), it is false\n  fix: train with model.bias=false");
  EXPECT_CONTAINS(with("model.bias=false").out, "0 errors, 0 advice");
  EXPECT_CONTAINS(with("model.bias=false", "model.gelu=tanh").out, "0 errors, 1 advice");
  const auto document = nlohmann::json::parse(with("--json").out);
  EXPECT_EQ(document["findings"].at(0)["severity"], "advice");
  EXPECT_EQ(document["findings"].at(0)["rule"], "export");
  EXPECT_EQ(with("parallel.tp=3").out.find("[export]"), std::string::npos) << "errors come first";
}

// A configuration may be meant for another machine: its answer stays "valid".
TEST(ConfigVerb, CheckSaysWhatThisMachineHasNot) {
  const VerbAnswer here = run_verb({"config", "check", "tiny-100k"});
  EXPECT_CONTAINS(here.out, "valid: 0 errors, 0 advice; ");
  EXPECT_CONTAINS(here.out, "MiB per rank\n");
  EXPECT_EQ(here.out.find("not on this machine"), std::string::npos) << here.out;
  const VerbAnswer large = run_verb({"config", "check", "tiny-100k", "memory_limit=1KiB"});
  EXPECT_EQ(large.code, 0);
  EXPECT_CONTAINS(large.out, "not on this machine: tiny-100k with micro_batch");
  const VerbAnswer json =
      run_verb({"config", "check", "tiny-100k", "data.path=/no/such", "--json"});
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_GT(document["memory_per_rank"], 100'000);
  ASSERT_EQ(document["missing_here"].size(), 1u);
  EXPECT_CONTAINS(document["missing_here"][0].get<std::string>(), "/no/such");
}

int64_t memory_per_rank(std::vector<std::string> words) {
  words.insert(words.begin(), {"config", "check", "tiny-100k", "global_batch=64", "--json"});
  return nlohmann::json::parse(run_verb(words).out)["memory_per_rank"];
}

// What a run will hold: with the micro-batch that `auto` chooses, and with the copies of a save.
TEST(ConfigVerb, CheckCountsWhatARunNeeds) {
  EXPECT_EQ(memory_per_rank({"micro_batch=auto"}), memory_per_rank({"micro_batch=64"}));
  EXPECT_LT(memory_per_rank({"micro_batch=1"}), memory_per_rank({"micro_batch=auto"}));
  EXPECT_LT(memory_per_rank({"micro_batch=1"}), memory_per_rank({"micro_batch=1", "output=x"}));
  const VerbAnswer said =
      run_verb({"config", "check", "tiny-100k", "micro_batch=auto", "global_batch=64"});
  EXPECT_CONTAINS(said.out, " per rank with micro_batch=64\n");
  // Where this machine cannot tell, one sequence is counted, and named.
  const VerbAnswer large = run_verb(
      {"config", "check", "tiny-100k", "micro_batch=auto", "global_batch=64", "memory_limit=1KiB"});
  EXPECT_CONTAINS(large.out, " per rank with micro_batch=1\nnot on this machine: ");
}

TEST(ConfigVerb, CheckSaysThatItDidNotCheckAllRules) {
  const VerbAnswer range = run_verb({"config", "check", "tiny", "train.steps=-1", "parallel.tp=3"});
  EXPECT_CONTAINS(range.out, "not valid: 1 error; other rules are checked once these hold\n");
  const VerbAnswer all = run_verb({"config", "check", "tiny", "parallel.tp=3"});
  EXPECT_CONTAINS(all.out, "not valid: 1 error\n");
}

// A limit that the machine does not have is no promise.
TEST(ConfigVerb, ALimitAboveTheMachinesMemoryIsWarnedOf) {
  const VerbAnswer above = run_verb({"config", "check", "mpt-70b", "model.layers=800",
                                     "memory_limit=100TiB", "micro_batch=1", "global_batch=1"});
  EXPECT_CONTAINS(above.err, "but this machine has ");
  const VerbAnswer none = run_verb({"config", "check", "mpt-70b", "model.layers=800"});
  EXPECT_CONTAINS(none.out, "use a smaller model, or more machines with tp, pp or zero\n");
}

// Advice is about values that the fix of an error may change.
TEST(ConfigVerb, CheckGivesNoAdviceBesideErrors) {
  const VerbAnswer bad = run_verb({"config", "check", "gpt2-124m", "parallel.tp=5"});
  EXPECT_EQ(bad.out.find("advice"), std::string::npos) << bad.out;
}

TEST(ConfigVerb, ShowAndSchema) {
  const VerbAnswer show = run_verb({"config", "show", "tiny", "train.lr=1e-3"});
  EXPECT_EQ(show.code, 0);
  EXPECT_CONTAINS(show.out, "# command line");
  const auto json = nlohmann::json::parse(run_verb({"config", "show", "tiny", "--json"}).out);
  EXPECT_EQ(json["config"]["model"]["layers"], 4);
  EXPECT_EQ(json["origins"]["model.layers"], "model tiny");
  const auto schema = nlohmann::json::parse(run_verb({"config", "schema"}).out);
  EXPECT_TRUE(schema["properties"].contains("parallel"));
}

TEST(ConfigVerb, ExitCodes) {
  const test::TempDir dir;
  EXPECT_EQ(run_verb({"config", "show", dir / "none.yaml"}).code, 66);
  EXPECT_EQ(run_verb({"config", "show", dir / ""}).code, 78);
  EXPECT_EQ(run_verb({"config", "show", dir.write("e.yaml", "")}).code, 78);
  EXPECT_EQ(run_verb({"config", "show", dir.write("b.yaml", "\x7f\x01\xff")}).code, 78);
  EXPECT_EQ(run_verb({"config", "show", dir.write("l.yaml", std::string(1'000'000, 'x'))}).code,
            78);
  EXPECT_EQ(run_verb({"config", "show"}).code, 64);
  const VerbAnswer typo = run_verb({"config", "show", "tiny", "trian.lr=1"});
  EXPECT_EQ(typo.code, 78);
  EXPECT_TRUE(typo.out.empty());
  EXPECT_CONTAINS(typo.err, "fix: did you mean 'train'");
}

TEST(ModelsVerb, ListsAndShows) {
  const VerbAnswer all = run_verb({"models"});
  EXPECT_EQ(all.code, 0);
  EXPECT_CONTAINS(all.out, "124,439,808");
  const auto one = nlohmann::json::parse(run_verb({"models", "mpt-7b", "--json"}).out);
  EXPECT_EQ(one["parameters"], 6658859008);
  EXPECT_CONTAINS(run_verb({"models", "gpt2-124m"}).out, "12 of 64");
  const VerbAnswer unknown = run_verb({"models", "mpt-7"});
  EXPECT_EQ(unknown.code, 66);
  EXPECT_CONTAINS(unknown.err, "'mpt-7b'");
}

}  // namespace
}  // namespace stretto
