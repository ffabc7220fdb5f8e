// What `stretto plan` refuses, with the option and the fix; and that its answers can be run.
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/fs.h"
#include "config/reader.h"
#include "config/support.h"
#include "support/run_verb.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

constexpr int kWide = 1000;  // no line is wrapped

// The command in a plan, as a shell reads it: a line that ends in a backslash goes on in the next.
std::string command_in(const std::string& page) {
  const size_t begin = page.find("stretto train");
  std::string command;
  for (size_t at = begin; at < page.size() && page[at] != '\n'; ++at) {
    page.compare(at, 2, "\\\n") == 0 ? void(++at) : command.push_back(page[at]);
  }
  return command;
}

TEST(PlanVerb, QuestionsWithoutAnAnswerAreRefused) {
  struct Case {
    std::vector<std::string> words;
    std::string what, fix;
  };
  for (const Case& c : std::vector<Case>{
           {{"--gpus", "0"}, "--gpus is 0", "from 1 on"},
           {{"--global-batch", "-4"}, "--global-batch is -4", "from 1 on"},
           {{"--seq-len", "0"}, "--seq-len is 0", "from 1 on"},
           {{"--zero", "4"}, "--zero 4", "0, 1, 2 or 3"},
           {{"--json", "--csv"}, "both", "choose one"},
           {{"--json", "--rejected"}, "are text", "leave them out"},
           {{"--csv", "--explain"}, "are text", "leave them out"},
           {{"--machine", "m.json"}, "--machine is of --cluster local", "add --cluster local"},
           {{"compare", "runs"}, "would be ignored here: mpt-7b", "plan VERB --help"},
           {{"exam", "--json"}, "would be ignored here: mpt-7b, --json", "leave them out"},
           {{"--tokens", "2T"}, "belong to --scale", "add --scale"},
           {{"--scale", "--deadline", "60d"}, "needs the tokens", "--tokens"},
           {{"--scale", "--tokens", "2T", "--budget", "1000"}, "no price", "--price"},
           {{"--scale", "--price", "2"}, "a price needs the tokens", "--tokens"},
           {{"--scale", "--tokens", "0"}, "--tokens 0", "more than zero"},
           {{"--scale", "--tokens", "2T", "--deadline", "-5d"}, "--deadline -5", "more than zero"},
           {{"--scale", "--tokens", "2T", "--price", "nan"}, "--price is nan", "above zero"},
           {{"--scale", "--tokens", "2T", "--price", "1e308"}, "--price is 1e+308", "1000000 at"},
           {{"--scale", "--explain"}, "do not go with --scale", "leave them out"},
           {{"--scale", "--cluster", "local"},
            "this machine has a fixed number",
            "another --cluster"},
           {{"--scale", "--gpus", "512"}, "does not go with --scale", "one of them"}}) {
    std::vector<std::string> words = {"plan", "mpt-7b"};
    words.insert(words.end(), c.words.begin(), c.words.end());
    const VerbAnswer answer = run_verb(words);
    EXPECT_EQ(answer.code, 64) << c.what;
    EXPECT_EQ(answer.out, "") << c.what;
    EXPECT_NE(answer.err.find(c.what), std::string::npos) << answer.err;
    EXPECT_NE(answer.err.find(c.fix), std::string::npos) << answer.err;
  }
}

// With --seq-len, the words need not give a sequence length.
TEST(PlanVerb, ASequenceLengthThatIsGivenIsRead) {
  const VerbAnswer answer =
      run_verb({"plan", "model.name=mine", "model.layers=4", "model.hidden=256", "model.heads=4",
                "model.vocab=512", "--seq-len", "64", "--gpus", "2", "--top", "1"},
               kWide);
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.out.find("sequences of 64 tokens"), std::string::npos) << answer.out;
}

TEST(PlanVerb, WordsThatTheModelLacksAreNamed) {
  const auto asked = [](const std::string& word) {
    return run_verb({"plan", "mpt-125m", word, "--gpus", "2", "--top", "1"}).err;
  };
  for (const char* word : {"tf32=true", "deterministic=true", "parallel.order=pp,dp,tp"}) {
    EXPECT_NE(asked(word).find(std::string("the cost model does not include ") + word),
              std::string::npos)
        << asked(word);
  }
  EXPECT_EQ(asked("parallel.order=tp,dp,pp"), "");
}

// Each once, and no default that nobody set.
TEST(PlanVerb, TheCommandReplacesWords) {
  const std::string out = run_verb({"plan", "mpt-125m", "seq_len=512", "precision=fp32", "--gpus",
                                    "2", "--precision", "amp_bf16", "--top", "1"})
                              .out;
  const std::string command = command_in(out);
  EXPECT_NE(command.find(" seq_len=512"), std::string::npos) << command;
  EXPECT_EQ(command.find("seq_len", command.find("seq_len") + 1), std::string::npos) << command;
  EXPECT_EQ(command.find("precision=fp32"), std::string::npos) << command;
  EXPECT_NE(command.find(" precision=amp_bf16"), std::string::npos) << command;
  EXPECT_EQ(command.find("parallel.pp"), std::string::npos) << command;
}

TEST(PlanVerb, AMicroBatchThatIsNamedIsTried) {
  const auto ask = [](const char* micro_batch) {
    return run_verb({"plan", "gpt2-124m", "--cluster", "h100", "--gpus", "1", "--seq-len", "128",
                     "--global-batch", "32768", "--micro-batch", micro_batch, "--top", "1"});
  };
  EXPECT_NE(ask("8192").out.find("best: dp1 tp1 pp1 mbs8192"), std::string::npos)
      << ask("8192").err;
  EXPECT_EQ(ask("100").code, 78);
}

TEST(PlanVerb, ADeadlineThatNothingMeetsIsNoSuccess) {
  const auto ask = [](const char* deadline) {
    return run_verb({"plan", "mpt-70b", "--scale", "--tokens", "2T", "--deadline", deadline});
  };
  EXPECT_EQ(ask("1h").code, 1);
  EXPECT_NE(ask("1h").out.find("none of these counts meets the deadline"), std::string::npos);
  EXPECT_EQ(ask("9000d").code, 0);
}

// The fix must not propose an option that was given.
TEST(PlanVerb, AFixIsNotWhatWasDone) {
  std::vector<std::string> words = {"plan",           "mpt-7b", "--gpus", "8",
                                    "--global-batch", "4",      "--dp",   "8"};
  VerbAnswer answer = run_verb(words);
  EXPECT_NE(answer.code, 0) << answer.out;
  EXPECT_NE(answer.err.find("--rejected lists why"), std::string::npos) << answer.err;
  words.push_back("--rejected");
  answer = run_verb(words);
  EXPECT_NE(answer.code, 0) << answer.out;
  EXPECT_EQ(answer.err.find("--rejected"), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find("fix: allow more layouts"), std::string::npos) << answer.err;
}

// Counts that a search cannot take, whether --gpus is given or not.
TEST(PlanVerb, LayoutsThatCannotBeAreRefused) {
  for (const auto& [words, what] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"--gpus", "64", "--dp", "7"}, "dp 7 does not divide 64 devices"},
           {{"--dp", "3"}, "dp 3 does not divide 8 devices"},
           {{"--dp", "2", "--tp", "2", "--pp", "1"}, "give --gpus 4"},
           {{"--gpus", "9223372036854775807"}, "give --gpus 1 to"}}) {
    std::vector<std::string> all = {"plan", "mpt-7b"};
    all.insert(all.end(), words.begin(), words.end());
    const VerbAnswer answer = run_verb(all);
    EXPECT_EQ(answer.code, 78) << what;
    EXPECT_NE(answer.err.find(what), std::string::npos) << answer.err;
  }
}

TEST(PlanVerb, ItsOptionsAreNotThoseOfItsVerbs) {
  EXPECT_EQ(run_verb({"plan", "clusters", "h100"}).code, 0);
  EXPECT_EQ(run_verb({"plan", "clusters", "h100", "--json"}).code, 64);
  EXPECT_EQ(run_verb({"plan", "--cluster", "h200", "calibrate", "missing.csv"}).code, 64);
  EXPECT_EQ(run_verb({"plan", "compare", "runs", "more"}).code, 64);
  EXPECT_EQ(run_verb({"plan", "exam", "--gpus", "8", "--dir", "missing"}).code, 64);
}

// A cluster file may hold any name.
TEST(PlanVerb, NamesInTheChartAreText) {
  const TempDir dir;
  std::string text =
      read_file(posix_fs(), STRETTO_SOURCE_DIR "/configs/clusters/h100.yaml", 1 << 20);
  const std::string name = "name: h100\n";
  ASSERT_NE(text.find(name), std::string::npos);
  text.replace(text.find(name), name.size(), "name: \"<script>x</script> & co\"\n");
  const std::string cluster = dir.write("c.yaml", text), svg = dir / "scale.svg";
  EXPECT_EQ(run_verb({"plan", "mpt-7b", "--cluster", cluster, "--scale", "--svg", svg}).code, 0);
  const std::string chart = read_file(posix_fs(), svg, 1 << 20);
  EXPECT_EQ(chart.find("<script"), std::string::npos);
  EXPECT_NE(chart.find("&lt;script&gt;x&lt;/script&gt; &amp; co"), std::string::npos);
}

// Seven devices cannot share 2048 sequences; 293 for each would be a prime.
TEST(PlanVerb, TheBatchCanBeCutIntoMicroBatches) {
  EXPECT_NE(run_verb({"plan", "mpt-1b", "--gpus", "7"}).out.find("; 2240 sequences"),
            std::string::npos);
  EXPECT_NE(run_verb({"plan", "mpt-1b", "--gpus", "64"}).out.find("; 2048 sequences"),
            std::string::npos);
}

TEST(PlanVerb, ModelsAndDevicesThatCannotBeAreNamed) {
  const VerbAnswer layers = run_verb({"plan", "mpt-7b", "model.layers=1000000000"});
  EXPECT_EQ(layers.code, 78);
  EXPECT_NE(layers.err.find("model.layers is 1000000000"), std::string::npos) << layers.err;
  const VerbAnswer fp8 =
      run_verb({"plan", "mpt-7b", "--cluster", "a100-80", "--precision", "amp_fp8"});
  EXPECT_EQ(fp8.code, 78);
  EXPECT_NE(fp8.err.find("no fp8 units"), std::string::npos) << fp8.err;
}

// The plan is printed all the same: it says what would fit.
TEST(PlanVerb, ShortWordsOfLayoutsAreExplained) {
  const std::string plain = run_verb({"plan", "mpt-125m", "--gpus", "8", "--tp", "1", "--pp", "1",
                                      "--zero", "0", "--recompute", "none"})
                                .out;
  EXPECT_NE(plain.find("(mbs: micro-batch)"), std::string::npos) << plain;
  const std::string cut = run_verb({"plan", "mpt-7b", "--gpus", "64", "--tp", "2", "--pp", "4",
                                    "--schedule", "zero_bubble", "--recompute", "full"})
                              .out;
  for (const char* word : {"zb: zero bubble", "full: recomputation", "sp: sequence parallel"}) {
    EXPECT_NE(cut.find(word), std::string::npos) << word << "\n" << cut;
  }
}

TEST(PlanVerb, NothingThatFitsIsNoSuccess) {
  const VerbAnswer answer = run_verb({"plan", "mpt-70b", "--gpus", "1"});
  EXPECT_EQ(answer.code, 80);
  EXPECT_NE(answer.out.find("it would fit with"), std::string::npos) << answer.out;
  EXPECT_NE(answer.err.find("no layout of mpt-70b on 1 device can"), std::string::npos)
      << answer.err;
  const VerbAnswer json = run_verb({"plan", "mpt-70b", "--gpus", "1", "--json"});
  EXPECT_EQ(json.code, 80);
  EXPECT_NE(json.err.find("fix: it would fit with 16 devices"), std::string::npos) << json.err;
}

// --scale says so, too, with the code that a plan of one count would have.
TEST(PlanVerb, NothingThatFitsAtAnyScaleIsNoSuccess) {
  const std::vector<std::string> words = {"plan", "mpt-70b", "--scale", "--tp", "1",
                                          "--pp", "1",       "--zero",  "0"};
  const VerbAnswer memory = run_verb(words);
  EXPECT_EQ(memory.code, 80) << memory.err;
  EXPECT_NE(memory.out.find("nothing fits"), std::string::npos) << memory.out;
  EXPECT_NE(memory.err.find("on any of these counts of devices"), std::string::npos) << memory.err;
  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  EXPECT_EQ(run_verb(as_json).code, 80);
  const VerbAnswer batch = run_verb({"plan", "mpt-7b", "--scale", "--micro-batch", "128", "--tp",
                                     "1", "--pp", "1", "--global-batch", "128"});
  EXPECT_EQ(batch.code, 78) << batch.err;
  EXPECT_EQ(run_verb({"plan", "mpt-7b", "--scale"}).code, 0);
}

TEST(PlanVerb, RanksOfSeveralMachinesAreProcesses) {
  const VerbAnswer answer = run_verb({"plan", "mpt-1b", "--gpus", "16", "--top", "1"});
  EXPECT_NE(answer.out.find("\n  mpirun -n 16 stretto train mpt-1b"), std::string::npos)
      << answer.out;
}

TEST(PlanVerb, WordsChangeTheModel) {
  const VerbAnswer answer = run_verb({"plan", "mpt-7b", "model.heads=64", "--top", "1"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.out.find(" 64 heads"), std::string::npos) << answer.out;
}

// A run's own words say what is trained, options more; the layout is the planner's.
TEST(PlanVerb, WordsSayWhatIsTrained) {
  const std::vector<std::string> words = {
      "plan", "mpt-1b",          "seq_len=512",   "--gpus",       "8", "precision=bf16", "--top",
      "1",    "global_batch=64", "parallel.tp=4", "micro_batch=3"};
  const VerbAnswer said = run_verb(words, kWide);
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("64 sequences of 512 tokens, bf16\n"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("parallel.tp=1 "), std::string::npos) << said.out;
  EXPECT_NE(said.err.find("parallel.tp=4 is chosen anew; --tp 4 keeps it"), std::string::npos);
  EXPECT_NE(said.err.find("micro_batch=3 is chosen anew; --micro-batch 3"), std::string::npos);
  EXPECT_EQ(said.err.find("seq_len"), std::string::npos) << said.err;
  EXPECT_NE(said.out.find("\n  stretto train mpt-1b"), std::string::npos) << "one process";
  std::vector<std::string> more = words;
  more.insert(more.end(), {"--seq-len", "1024", "--precision", "amp_bf16", "--global-batch", "32"});
  const VerbAnswer options = run_verb(more, kWide);
  EXPECT_NE(options.out.find("32 sequences of 1024 tokens, amp_bf16\n"), std::string::npos)
      << options.out;
}

// The option that is named is one that `plan` takes, and not one that was given.
TEST(PlanVerb, NamesOptionsThatKeepAWord) {
  const auto note = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"plan", "tiny", "--gpus", "2", "--top", "1"});
    return run_verb(words).err;
  };
  EXPECT_CONTAINS(note({"parallel.zero=FULL_SHARD"}), "FULL_SHARD is chosen anew; --zero 3 keeps");
  EXPECT_CONTAINS(note({"parallel.schedule=zero_bubble"}), "; --schedule zero_bubble keeps it");
  EXPECT_CONTAINS(note({"parallel.schedule=gpipe"}), "parallel.schedule=gpipe is chosen anew\n");
  EXPECT_CONTAINS(note({"micro_batch=auto"}), "micro_batch=auto is chosen anew\n");
  EXPECT_CONTAINS(note({"parallel.interleave=3"}), "parallel.interleave=3 is chosen anew\n");
  EXPECT_EQ(note({"parallel.tp=2", "--tp", "2"}).find("chosen anew"), std::string::npos);
}

// The batch that is chosen suits the micro-batch that was asked for; one that was asked for may
// not.
TEST(PlanVerb, AMicroBatchThatDividesNoBatchIsNamed) {
  const std::vector<std::string> words = {"plan", "mpt-3b",        "--cluster", "h200",  "--gpus",
                                          "1",    "--micro-batch", "24",        "--top", "1"};
  const VerbAnswer chosen = run_verb(words);
  EXPECT_EQ(chosen.code, 0) << chosen.err;
  EXPECT_CONTAINS(chosen.out, " mbs24 ");
  std::vector<std::string> more = words;
  more.insert(more.end(), {"--global-batch", "100"});
  const VerbAnswer asked = run_verb(more);
  EXPECT_EQ(asked.code, 78);
  EXPECT_CONTAINS(asked.err, "can run: global batch not divisible by dp x micro-batch");
  EXPECT_CONTAINS(asked.err, "give --global-batch 120, or another --micro-batch");
}

// No run of ours has such a hidden size: +-5 % would be a claim. A vocabulary is padded.
TEST(PlanVerb, ARateThatNoRunToldWidensTheInterval) {
  const auto first_lines = [](const char* hidden) {
    return run_verb({"plan", "gpt2-124m", "--cluster", "h200", "--gpus", "1", "--top", "1",
                     std::string("model.hidden=") + hidden},
                    kWide)
        .out;
  };
  const std::string odd = first_lines("780"), even = first_lines("768");
  EXPECT_CONTAINS(odd, "interval +-25 %, most of it common to all lines: no run tells how fast");
  EXPECT_CONTAINS(even, "interval +-5 %, most of it common to all lines\n");
}

// 1376 s, not 1.38e+03; one layout, one micro-batch.
TEST(PlanVerb, NumbersAreReadByPeople) {
  const VerbAnswer slow = run_verb(
      {"plan", "mpt-7b", "--software", "megatron-fugaku", "--recompute", "full", "--explain"});
  EXPECT_EQ(slow.code, 0) << slow.err;
  EXPECT_EQ(slow.out.find("e+0"), std::string::npos) << slow.out;
  const VerbAnswer one = run_verb({"plan", "mpt-7b", "--gpus", "64", "--tp", "16"});
  EXPECT_NE(one.out.find("\n1 layout looked at in "), std::string::npos) << one.out;
}

TEST(PlanVerb, WhatTrainWouldRefuseIsNotPlanned) {
  const VerbAnswer narrow =
      run_verb({"plan", "mpt-7b", "gradient_dtype=bf16", "--precision", "fp32"});
  EXPECT_EQ(narrow.code, 78);
  EXPECT_NE(narrow.err.find("needs products in bf16"), std::string::npos) << narrow.err;
  struct Case {
    std::vector<std::string> words;
    std::string what;
  };
  for (const Case& c : std::vector<Case>{
           {{"model.heads=1"}, "heads of size 4096"},
           {{"model.hidden=65536", "model.heads=512"}, "model.hidden is more than"},
           {{"deterministic=true", "parallel.reduce_dtype=bf16"}, "parallel.reduce_dtype rounds"},
           {{"deterministic=true", "repeatable=false"}, "repeatable contradicts"},
           {{"deterministic=true", "--schedule", "zero_bubble"}, "that is deterministic"},
           {{"train.ramp_up.start=3", "train.ramp_up.increment=3", "train.ramp_up.samples=1000"},
            "does not lead from"},
           {{"tf32=true", "--cluster", "fugaku-a64fx"}, "exists on GPUs only"}}) {
    std::vector<std::string> words = {"plan", "mpt-7b"};
    words.insert(words.end(), c.words.begin(), c.words.end());
    const VerbAnswer answer = run_verb(words);
    EXPECT_EQ(answer.code, 78) << c.what;
    EXPECT_NE(answer.err.find(c.what), std::string::npos) << answer.err;
  }
}

// What fits only above 92 % of the memory is proposed together with --tight.
TEST(PlanVerb, AdviceCanBeFollowed) {
  const VerbAnswer refused = run_verb({"plan", "mpt-13b", "--gpus", "1"});
  EXPECT_EQ(refused.code, 80);
  EXPECT_NE(refused.err.find("gradient_dtype=bf16 and optimizer_offload=true, "), std::string::npos)
      << refused.err;
  const VerbAnswer followed =
      run_verb({"plan", "mpt-13b", "gradient_dtype=bf16", "optimizer_offload=true", "--gpus", "1"});
  EXPECT_EQ(followed.code, 0) << followed.err;
}

// Words for our own runtime change nothing of another software, and that is said.
TEST(PlanVerb, OtherSoftwareIsNotTold) {
  const auto plan = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"plan",   "mpt-7b", "--software", "megatron-deepspeed-2022",
                                      "--gpus", "8",      "--csv"};
    words.insert(words.begin() + 2, more.begin(), more.end());
    return run_verb(words);
  };
  const VerbAnswer told =
      plan({"gradient_dtype=bf16", "activation_offload=true", "optimizer_offload=true"});
  EXPECT_EQ(told.out, plan({}).out);
  EXPECT_NE(told.err.find("they are ignored"), std::string::npos) << told.err;
}

TEST(PlanVerb, ALimitOfMemoryHolds) {
  const VerbAnswer answer =
      run_verb({"plan", "mpt-7b", "memory_limit=40GiB", "--gpus", "64", "--top", "1"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.out.find(" of 40.00 GiB\n"), std::string::npos) << answer.out;
}

// What our own runtime may be told about memory counts in the plan.
TEST(PlanVerb, MemoryFollowsTheWords) {
  const auto gib = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"plan", "mpt-3b",      "--gpus", "1",       "--micro-batch",
                                      "4",    "--recompute", "none",   "--tight", "--json"};
    words.insert(words.begin() + 2, more.begin(), more.end());
    const VerbAnswer answer = run_verb(words);
    EXPECT_EQ(answer.code, 0) << answer.err;
    const auto plan = nlohmann::json::parse(answer.out);
    return plan["layouts"][0]["memory_needed"].get<double>() / (1 << 30);
  };
  const double plain = gib({});
  const double parameters = 2.652 * 1e9 / (1 << 30);
  EXPECT_NEAR(plain - gib({"gradient_dtype=bf16"}), 2 * parameters, 0.02 * plain);
  EXPECT_NEAR(plain - gib({"optimizer_offload=true"}), 10 * parameters, 0.05 * plain);
  EXPECT_LT(gib({"logits_chunk=64MiB"}), plain);
}

// Rounded copies of gradients travel in half the bytes, through two buffers as large as the largest
// unit, here the token embedding.
TEST(PlanVerb, RoundedGradientsCount) {
  const auto layout = [](const std::string& more) {
    const VerbAnswer answer =
        run_verb({"plan", "mpt-3b", more, "--gpus", "16", "--dp", "16", "--zero", "1",
                  "--micro-batch", "4", "--recompute", "none", "--json"});
    EXPECT_EQ(answer.code, 0) << answer.err;
    return nlohmann::json::parse(answer.out)["layouts"][0];
  };
  const nlohmann::json plain = layout("parallel.reduce_dtype=f32");
  const nlohmann::json rounded = layout("parallel.reduce_dtype=bf16");
  const auto needed = [](const nlohmann::json& l) { return l["memory_needed"].get<double>(); };
  EXPECT_EQ(needed(rounded) - needed(plain), 2 * 2.0 * 50368 * 2560);
  EXPECT_LT(rounded["terms"]["data-parallel traffic"], plain["terms"]["data-parallel traffic"]);
  EXPECT_EQ(rounded["terms"]["memory-bound passes"], plain["terms"]["memory-bound passes"]);
}

// The line with the command passes every rule of the configuration, and runs what was planned
// whatever else the model's own words say.
TEST(PlanVerb, TheCommandItPrintsIsThePlan) {
  const std::string file = STRETTO_SOURCE_DIR "/configs/runs/parallel.yaml";
  struct Asked {
    std::vector<std::string> words;
    int64_t devices, seq_len;
  };
  for (const auto& [words, devices, seq_len] :
       {Asked{{"plan", "mpt-7b", "--gpus", "64"}, 64, 2048},
        {{"plan", "mpt-7b", "--gpus", "64", "--seq-len", "4096"}, 64, 4096},
        {{"plan", "mpt-7b", "model.heads=64", "--gpus", "64", "--seq-len", "512"}, 64, 512},
        {{"plan", file, "--gpus", "8", "--precision", "amp_bf16"}, 8, 256},
        {{"plan", "bloom-176b", "--gpus", "384", "--tp", "4", "--global-batch", "2304"}, 384, 2048},
        {{"plan", "mpt-13b", "--gpus", "32", "--pp", "4", "--schedule", "zero_bubble"}, 32, 2048},
        {{"plan", "mpt-13b", "--gpus", "32", "--pp", "4", "--interleave", "2"}, 32, 2048}}) {
    const VerbAnswer answer = run_verb(words);
    ASSERT_NE(answer.out.find("stretto train "), std::string::npos) << answer.out;
    std::istringstream line(command_in(answer.out));
    std::vector<std::string> check = {"config", "check"};
    std::string word;
    line >> word >> word;  // stretto train
    while (line >> word) check.push_back(word);
    const VerbAnswer checked = run_verb(check);
    EXPECT_EQ(checked.code, 0) << answer.out << checked.out << checked.err;
    const Config config = load_config({check.begin() + 2, check.end()}).config;
    EXPECT_EQ(config.world_size(), devices) << answer.out;
    EXPECT_EQ(config.seq_len > 0 ? config.seq_len : config.model.positions, seq_len) << answer.out;
  }
}

}  // namespace
}  // namespace stretto
