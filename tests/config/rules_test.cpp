// Every rule, broken once: the message, the fix, the place and the severity. The last test makes
// sure that no rule lacks its case.
#include "config/rules.h"

#include <rapidcheck.h>

#include <set>

#include "config/registry.h"
#include "config/schema.h"
#include "config/support.h"

namespace stretto {
namespace {

using test::error_of;

struct Case {
  const char* rule;
  Severity severity;
  std::vector<std::string> words;  // on top of the tiny model
  const char* message;             // place, key, value and reason
  const char* fix;
};

constexpr Severity E = Severity::error;
constexpr Severity A = Severity::advice;

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"range",
       E,
       {"model.layers=1000000000"},
       "command line  model.layers: 1000000000\n    is above the limit, 10000",
       "use 1 to 10000"},
      {"range",
       E,
       {"parallel.tp=0"},
       "parallel.tp: 0\n    is below the least value, 1",
       "use 1 to 1048576 ranks"},
      {"range", E, {"micro_batch=-1000"}, "micro_batch: -1000\n    is below", "use 1 to"},
      {"hidden-heads",
       E,
       {"model.heads=3"},
       "command line  model.heads: 3\n    does not divide model.hidden: 128 (model tiny)",
       "use 1, 2, 4, 8, 16 or 32"},
      {"positions",
       E,
       {"seq_len=256"},
       "command line  seq_len: 256\n    is longer than model.positions: 128 (model tiny)",
       "use at most 128, or set model.positions=256"},
      {"precision-device",
       A,
       {"precision=amp_fp8"},
       "precision: amp_fp8\n    is emulated, and slow, with device: cpu",
       "set device=cuda"},
      {"gpu-clock-device",
       E,
       {"gpu_clock=auto"},
       "gpu_clock: auto\n    limits the clock of a GPU",
       "set gpu_clock=0"},
      {"tf32-device", E, {"tf32=true"}, "tf32: true\n    exists on GPUs only", "set tf32=false"},
      {"deterministic-repeatable",
       E,
       {"deterministic=true", "repeatable=false"},
       "repeatable: false\n    contradicts deterministic: true",
       "set repeatable=true"},
      {"head-size",
       A,
       {"model.hidden=48", "model.heads=4"},
       "model.heads: 4\n    gives heads of 12 with model.hidden: 48 (command line)",
       "hidden / heads is 8 or 16"},
      {"tile-quantisation",
       A,
       {"model.hidden=192", "device=cuda"},
       "model.hidden: 192\n    is not a multiple of 128",
       "use 128 or 256"},
      {"gpu-heads",
       E,
       {"model.hidden=512", "model.heads=1", "device=cuda"},
       "model.heads: 1\n    gives heads of size 512; a GPU takes up to 256",
       "use at least 2 heads"},
      {"gpu-heads",
       E,
       {"model.hidden=2048", "model.heads=256", "device=cuda"},
       "is 256 on a rank; a GPU takes up to 128",
       "more parallel.tp"},
      {"gpu-sequences",
       E,
       {"micro_batch=65536", "global_batch=65536", "device=cuda"},
       "micro_batch: 65536\n    is more than 65535 sequences, what a GPU takes at once",
       "use at most 65535"},
      {"gpu-hidden",
       E,
       {"model.hidden=16640", "model.heads=65", "device=cuda"},
       "is more than 16384, what a GPU takes with precision: fp32",
       "device=cpu"},
      {"gpu-hidden",
       E,
       {"model.hidden=8450", "model.heads=65", "device=cuda"},
       "is more than 8192, what a GPU takes with precision: fp32 and no multiple of 4",
       "use less"},
      {"offload-device",
       A,
       {"activation_offload=true"},
       "activation_offload: true\n    saves nothing with device: cpu",
       "device=cuda"},
      {"gradient-dtype",
       E,
       {"gradient_dtype=bf16", "precision=amp_fp16"},
       "gradient_dtype: bf16\n    needs products in bf16, but this is precision: amp_fp16",
       "gradient_dtype=f32, or precision=amp_bf16"},
      {"gradient-dtype",
       E,
       {"gradient_dtype=bf16", "precision=amp_bf16", "deterministic=true"},
       "gradient_dtype: bf16\n    rounds sums that depend on parallel.dp",
       "gradient_dtype=f32, or deterministic=false"},
      {"deterministic-schedule",
       E,
       {"parallel.pp=2", "parallel.schedule=zero_bubble", "deterministic=true"},
       "parallel.schedule: zero_bubble\n    computes gradients of several micro-batches at once",
       "parallel.schedule=1f1b, or deterministic=false"},
      {"deterministic-schedule",
       E,
       {"parallel.pp=2", "parallel.schedule=gpipe", "model.tied_embedding=false",
        "deterministic=true"},
       "parallel.schedule: gpipe\n    computes gradients of several micro-batches at once",
       "parallel.schedule=1f1b, or deterministic=false"},
      {"reduce-dtype",
       E,
       {"parallel.reduce_dtype=bf16", "deterministic=true"},
       "parallel.reduce_dtype: bf16\n    rounds sums that depend on parallel.dp",
       "parallel.reduce_dtype=f32"},
      {"offload-device", A, {"optimizer_offload=true"}, "optimizer_offload: true", "device=cuda"},
      {"world-size",
       E,
       {"parallel.dp=4096", "parallel.pp=1024", "global_batch=4096"},
       "parallel.dp: 4096\n    x parallel.tp: 1 x parallel.pp: 1024 (command line) is more than",
       "smaller degrees"},
      {"heads-tp",
       E,
       {"parallel.tp=8"},
       "command line  parallel.tp: 8\n    does not divide model.heads: 4 (model tiny)",
       "use 1, 2 or 4"},
      {"heads-tp",  // of all that it does not divide
       E,
       {"parallel.tp=6", "model.heads=8", "model.ffn=516"},
       "does not divide model.heads: 8",
       "use 1, 2 or 4"},
      {"heads-tp",  // of the sequence, too, where that is cut
       E,
       {"parallel.tp=3", "seq_len=126"},
       "does not divide model.heads: 4",
       "use 1 or 2"},
      {"hidden-tp",
       E,
       {"parallel.tp=2", "model.hidden=129"},
       "does not divide model.hidden: 129",
       "use 1"},
      {"ffn-tp",
       E,
       {"parallel.tp=2", "model.ffn=511"},
       "parallel.tp: 2\n    does not divide model.ffn: 511 (command line)",
       "use 1, or model.ffn=510 or 512"},
      {"sequence-tp",
       E,
       {"parallel.tp=4", "seq_len=126"},
       "does not divide seq_len: 126 (command line), which sequence parallelism splits",
       "use seq_len=124 or 128, or parallel.sequence_parallel=false"},
      {"sequence-tp",  // the model has 128 positions, 129 would be refused
       E,
       {"parallel.tp=3", "model.heads=3", "model.hidden=129", "model.ffn=513"},
       "does not divide seq_len: 128",
       "use seq_len=126, or parallel.sequence_parallel=false"},
      {"sequence-tp",
       E,
       {"parallel.tp=256", "model.heads=256", "model.hidden=256", "seq_len=100"},
       "does not divide seq_len: 100",
       "set parallel.sequence_parallel=false"},
      {"layers-pp",
       E,
       {"parallel.pp=8"},
       "model.layers: 4\n    has fewer layers than the 8 stages of parallel.pp: 8 (command line)",
       "at most 4"},
      {"even-stages",
       A,
       {"parallel.pp=3"},
       "model.layers: 4\n    is not a multiple of the 3 stages",
       "use 3 or 6 layers"},
      {"even-stages",
       A,
       {"parallel.pp=2", "model.layers=5", "parallel.partition=transformer+embedding"},
       "model.layers: 5\n    with embedding and head is not a multiple of the 2 "
       "stages",
       "use 4 or 6 layers"},
      {"interleave-schedule",
       E,
       {"parallel.pp=2", "parallel.interleave=2"},
       "parallel.interleave: 2\n    needs the interleaved schedule, not parallel.schedule: 1f1b",
       "set parallel.schedule=interleaved"},
      {"interleaved-chunks",
       E,
       {"parallel.pp=2", "parallel.schedule=interleaved"},
       "parallel.schedule: interleaved\n    needs several chunks",
       "parallel.interleave=2"},
      {"zero-pp",
       E,
       {"parallel.dp=2", "parallel.pp=2", "parallel.zero=3"},
       "parallel.zero: 3\n    shards what each micro-batch of a pipeline needs again, with "
       "parallel.pp: 2 (command line)",
       "use parallel.zero=1"},
      {"zero-pp",
       E,
       {"parallel.dp=2", "parallel.pp=2", "parallel.zero=SHARD_GRAD_OP"},
       "parallel.zero: 2",
       "use parallel.zero=1"},
      {"zero-dp",
       A,
       {"parallel.zero=1"},
       "has nothing to shard with parallel.dp: 1",
       "parallel.zero=0"},
      {"gpu-rows",
       A,
       {"device=cuda", "model.hidden=1024", "model.heads=16", "micro_batch=8"},
       "micro_batch: 8\n    gives products of 1024 rows, which leave much of a GPU idle",
       "use micro_batch=256 global_batch=256, or micro_batch=auto for the most that fits"},
      {"zero-group",
       E,
       {"parallel.dp=4", "parallel.zero=3", "parallel.zero_group=3"},
       "parallel.zero_group: 3\n    does not divide parallel.dp: 4",
       "use 1, 2 or 4"},
      {"zero-group",
       E,
       {"parallel.dp=4", "parallel.zero_group=2"},
       "needs sharding",
       "parallel.zero=3"},
      {"zero-group",
       E,
       {"parallel.dp=4", "parallel.zero=3", "parallel.zero_group=2", "deterministic=true"},
       "depends on the groups",
       "parallel.zero_group=0"},
      {"partition",
       E,
       {"parallel.partition=layers"},
       "parallel.partition: layers\n    is neither a known word nor a list",
       "transformer"},
      {"partition",
       E,
       {"parallel.pp=2", "parallel.partition=[1, 2, 1]"},
       "lists 3 stages, but parallel.pp: 2 (command line) and parallel.interleave: 1 make 2",
       "2 numbers of at least 1, 4 layers in all"},
      {"partition",
       E,
       {"parallel.partition=[1, 2]"},
       "lists 2 stages",
       "or 1 number of at least 1, 4 layers in all"},
      {"partition",
       E,
       {"parallel.pp=2", "parallel.partition=[1, 2]"},
       "sums to 3, not to model.layers: 4 (model tiny)",
       "4 layers in all"},
      {"partition",
       E,
       {"parallel.pp=2", "parallel.partition=[0, 4]"},
       "gives a stage 0 layers",
       "at least 1"},
      {"rank-order",
       E,
       {"parallel.order=tp,dp"},
       "does not name each of tp, dp and pp once",
       "tp,dp,pp"},
      {"countable",
       E,
       {"micro_batch=16777216", "global_batch=16777216", "model.positions=134217728",
        "model.hidden=1048576"},
       "with micro_batch: 16777216 (command line), global_batch: 16777216 (command line) and",
       "use shorter or fewer sequences"},
      {"countable",  // by the gradients of all scores of attention that is repeatable
       E,
       {"device=cuda", "precision=amp_bf16", "model.layers=1", "model.hidden=1024",
        "model.heads=128", "model.positions=134217728", "seq_len=134217728", "micro_batch=4",
        "global_batch=4"},
       "makes more activations than can be counted",
       "use shorter or fewer sequences"},
      {"batch-dp",
       E,
       {"parallel.dp=3", "global_batch=8"},
       "global_batch: 8\n    is not a multiple of parallel.dp: 3 (command line)",
       "use 6 or 9"},
      {"micro-batch",
       A,
       {"micro_batch=16"},
       "micro_batch: 16\n    is more than the 8 sequences",
       "use at most 8"},
      {"interleave-batch",
       E,
       {"parallel.pp=2", "parallel.interleave=2", "parallel.schedule=interleaved",
        "global_batch=3"},
       "makes 3 micro-batches per rank; the interleaved schedule needs a multiple of "
       "parallel.pp: 2",
       "use 2 or 4"},
      {"pipeline-fill",
       A,
       {"parallel.pp=4", "global_batch=2"},
       "makes 2 micro-batches per rank, fewer than parallel.pp: 4",
       "global_batch=16 or more"},
      {"pipeline-fill",
       A,
       {"parallel.pp=2", "global_batch=1"},
       "makes 1 micro-batch per rank, fewer than parallel.pp: 2",
       "global_batch=8 or more"},
      {"ramp-up-fields",
       E,
       {"train.ramp_up.increment=8"},
       "train.ramp_up.start: 0\n    is missing",
       "set train.ramp_up.start"},
      {"ramp-up-fields",
       E,
       {"train.ramp_up.start=4"},
       "train.ramp_up.increment: 0\n    leaves the batch where it starts",
       "set train.ramp_up.increment=4"},
      {"ramp-up-fields",
       E,
       {"train.ramp_up.start=4", "train.ramp_up.increment=4"},
       "train.ramp_up.samples: 0\n    gives the ramp-up no length",
       "100k"},
      {"ramp-up-range",
       E,
       {"train.ramp_up.start=16", "train.ramp_up.increment=4", "train.ramp_up.samples=1k"},
       "train.ramp_up.start: 16\n    is more than global_batch: 8",
       "use at most 8"},
      {"ramp-up-range",
       E,
       {"train.ramp_up.start=2", "train.ramp_up.increment=4", "train.ramp_up.samples=1k"},
       "does not lead from train.ramp_up.start: 2 (command line) to global_batch: 8",
       "use 1, 2, 3 or 6"},
      {"ramp-up-dp",
       E,
       {"parallel.dp=4", "train.ramp_up.start=2", "train.ramp_up.increment=2",
        "train.ramp_up.samples=1k"},
       "train.ramp_up.start: 2\n    is not a multiple of parallel.dp: 4 (command line)",
       "use 4"},
      {"ramp-up-interleave",
       E,
       {"parallel.pp=2", "parallel.interleave=2", "parallel.schedule=interleaved",
        "train.ramp_up.start=2", "train.ramp_up.increment=3", "train.ramp_up.samples=1k"},
       "train.ramp_up.increment: 3\n    is not a multiple of dp x micro_batch x pp = 2",
       "use 2 or 4"},
      {"ramp-up-micro",
       A,
       {"micro_batch=4", "train.ramp_up.start=2", "train.ramp_up.increment=2",
        "train.ramp_up.samples=1k"},
       "micro_batch: 4\n    leaves ragged micro-batches during the ramp-up",
       "multiples of 4"},
      {"learning-rate", E, {"train.lr=0"}, "train.lr: 0\n    must be above zero", "6e-4"},
      {"min-lr",
       E,
       {"train.lr=0.1", "train.min_lr=0.5"},
       "train.min_lr: 0.5\n    is more than train.lr: 0.1 (command line)",
       "use 0.1 or less"},
      {"warmup",
       A,
       {"train.warmup=200"},
       "train.warmup: 200\n    is longer than train.steps: 100, so that train.lr: 0.0006 is not "
       "reached",
       "use 100 or less"},
      {"decay",
       E,
       {"train.schedule=wsd"},
       "train.decay: 0\n    is needed by train.schedule: wsd",
       "set train.decay=20"},
      {"decay",
       E,
       {"train.schedule=wsd", "train.decay=5", "train.warmup=10", "train.steps=10"},
       "train.decay: 5\n    does not fit",
       "set train.steps=15 or more"},
      {"decay",
       E,
       {"train.warmup=50", "train.decay=60"},
       "train.decay: 60\n    does not fit after train.warmup: 50",
       "use 50 or less"},
      {"adam", E, {"train.beta1=1"}, "train.beta1: 1\n    must be below one", "0.9"},
      {"adam", E, {"train.beta2=1"}, "train.beta2: 1\n    must be below one", "0.95"},
      {"adam", E, {"train.eps=0"}, "train.eps: 0\n    must be above 1.2e-38", "1e-8"},
      {"adam", E, {"train.beta2=0.9999999999"}, "must be below one in f32", "0.95"},
      {"adam", E, {"train.eps=1e-50"}, "must be above 1.2e-38", "1e-8"},
      {"loss-scale", E, {"train.loss_scale.minimum=0"}, "must be above zero", "use 1"},
      {"loss-scale",
       E,
       {"train.loss_scale.initial=2", "train.loss_scale.minimum=4"},
       "train.loss_scale.initial: 2\n    is below train.loss_scale.minimum: 4",
       "use 4 or more"},
      {"watchdog", E, {"train.watchdog=0s"}, "train.watchdog: 0\n    must be above zero", "5min"},
      {"eval-data", E, {"data.eval_path=x"}, "is given without data.path", "set data.path"},
      {"eval-data",
       E,
       {"data.path=x", "data.eval_fraction=0", "train.eval_every=5"},
       "data.eval_fraction: 0\n    leaves nothing to evaluate",
       "0.05"},
      {"eval-data",
       E,
       {"data.path=x", "data.eval_fraction=1"},
       "data.eval_fraction: 1\n    leaves nothing to train on",
       "0.05"},
      {"needs-output",
       E,
       {"checkpoint.every=10"},
       "checkpoint.every: 10\n    has nowhere to write",
       "set output=runs/NAME"},
      {"needs-output", E, {"trace=2"}, "trace: 2\n    has nowhere to write", "trace=0"},
      {"needs-output",
       E,
       {"log.tensorboard=true"},
       "log.tensorboard: true\n    has nowhere to write",
       "log.tensorboard=false"},
      {"checkpoint-keep",
       E,
       {"checkpoint.every=10", "checkpoint.keep_every=15", "output=runs/x"},
       "checkpoint.keep_every: 15\n    is not a multiple of checkpoint.every: 10",
       "use 10 or 20"},
      {"checkpoint-keep",
       E,
       {"checkpoint.keep_every=15"},
       "checkpoint.every: 0",
       "set checkpoint.every"},
  };
  return all;
}

TEST(Rules, EveryBrokenConfigurationIsExplained) {
  for (const Case& c : cases()) {
    std::vector<std::string> words = {"tiny"};
    words.insert(words.end(), c.words.begin(), c.words.end());
    SCOPED_TRACE(std::string(c.rule) + ": " + c.words.back());
    const ResolvedConfig resolved = load_config(words);
    bool found = false;
    std::string said;
    for (const Finding& finding : check_config(resolved.config)) {
      if (finding.rule != c.rule) continue;
      const std::string text = describe(finding, resolved);
      said += text + "\nfix: " + finding.fix + "\n";
      if (!test::contains(text, c.message)) continue;
      found = true;
      EXPECT_EQ(finding.severity, c.severity);
      EXPECT_CONTAINS(finding.fix, c.fix);
      EXPECT_NE(find_key(finding.key), nullptr);
    }
    EXPECT_TRUE(found) << "wanted: " << c.message << "\nsaid: " << said;
    if (c.severity == Severity::error) {
      EXPECT_EQ(error_of([&] { require_valid(resolved); }).code(), ExitCode::bad_config);
    } else {
      EXPECT_NO_THROW(require_valid(resolved));
    }
  }
}

TEST(Rules, WhatFollowsFromAValueOutOfRangeIsNoErrorOfItsOwn) {
  const Config c = load_config({"tiny", "model.hidden=4611686018427387904"}).config;
  const std::vector<Finding> findings = check_config(c);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].key, "model.hidden");
}

TEST(Rules, ADegreeThatDividesNothingIsOneError) {
  const Config c = load_config({"tiny", "parallel.tp=3"}).config;
  std::vector<std::string> errors;
  for (const Finding& f : check_config(c)) {
    if (f.severity == Severity::error) errors.emplace_back(f.rule);
  }
  EXPECT_EQ(errors, std::vector<std::string>{"heads-tp"});
}

TEST(Rules, EveryRuleHasACase) {
  std::set<std::string> tested = {"engine"};  // engine_rule_test.cpp
  for (const Case& c : cases()) tested.insert(c.rule);
  for (const std::string& name : rule_names()) EXPECT_TRUE(tested.count(name)) << name;
}

TEST(Rules, MessagesPointIntoTheFile) {
  const ResolvedConfig resolved = load_config_text(
      "# mine\nmodel:\n  name: tiny\n  heads: 8\nparallel:\n  tp: 3\n", "configs/my.yaml");
  const Error error = error_of([&] { require_valid(resolved); });
  EXPECT_CONTAINS(std::string(error.what()),
                  "configs/my.yaml:6:7  parallel.tp: 3\n"
                  "    does not divide model.heads: 8 (configs/my.yaml:4)");
  EXPECT_EQ(error.hint(), "use 1, 2, 4 or 8");
}

TEST(Rules, WithoutOriginsThereAreNoPlaces) {
  Config c = load_config({"tiny"}).config;
  c.parallel.tp = 8;
  const std::string text = error_of([&] { require_valid(c); }).what();
  EXPECT_CONTAINS(text, "parallel.tp: 8\n    does not divide model.heads: 4");
  EXPECT_FALSE(test::contains(text, "default"));
}

TEST(Rules, RaggedMicroBatchesAreLegal) {
  const Config c = load_config({"tiny", "global_batch=48", "micro_batch=11"}).config;
  EXPECT_TRUE(check_config(c).empty());
}

// What other stacks' softmax kernels ask of heads and micro-batch, our own do not.
TEST(Rules, AGpuTakesAnyHeadsAndMicroBatch) {
  const Config c = load_config({"tiny", "device=cuda", "parallel.tp=4", "micro_batch=2"}).config;
  for (const Finding& f : check_config(c)) EXPECT_NE(f.key, "micro_batch") << f.message;
}

TEST(Rules, AllSequencesThatAGpuTakesAreLegal) {
  for (const char* micro_batch : {"micro_batch=65535", "micro_batch=auto"}) {
    EXPECT_NO_THROW(
        require_valid(load_config({"tiny", "device=cuda", "global_batch=131070", micro_batch})));
  }
  EXPECT_NO_THROW(require_valid(load_config({"tiny", "global_batch=65536", "micro_batch=65536"})));
}

TEST(Rules, WhatTheTablesRanIsLegal) {
  EXPECT_NO_THROW(require_valid(
      load_config({"bloom-prequel-72x14336h64", "parallel.dp=8", "parallel.tp=4", "parallel.pp=12",
                   "parallel.zero=1", "micro_batch=2", "global_batch=2048", "device=cuda"})));
  EXPECT_NO_THROW(require_valid(
      load_config({"fugaku-30b", "parallel.tp=4", "parallel.pp=48", "global_batch=1536"})));
  EXPECT_NO_THROW(
      require_valid(load_config({"mpt-70b", "parallel.dp=128", "parallel.zero=FULL_SHARD",
                                 "global_batch=2048", "device=cuda", "precision=amp_fp8"})));
}

TEST(Rules, EmbeddingAndHeadMayMakeStagesEven) {
  const auto advised = [](const char* partition) {
    const auto findings =
        check_config(load_config({"tiny", "parallel.pp=3", "global_batch=12", partition}).config);
    return std::any_of(findings.begin(), findings.end(),
                       [](const Finding& f) { return f.rule == std::string("even-stages"); });
  };
  EXPECT_TRUE(advised("parallel.partition=transformer"));  // four layers
  EXPECT_FALSE(advised("parallel.partition=transformer+embedding"));
}

TEST(Rules, ExtremeNumbersNeverCrash) {
  const auto any = rc::gen::element<int64_t>(INT64_MIN, -1, 0, 1, 2, 3, 4, 6, 8, 12, 64, 1000003,
                                             int64_t{1} << 40, INT64_MAX);
  EXPECT_TRUE(rc::check("every finding has a reason and a fix", [&] {
    Config c = load_config({"tiny"}).config;
    for (const Key& key : config_keys()) {
      const bool number = key.type == ValueType::count || key.type == ValueType::bytes;
      if (number && *rc::gen::inRange(0, 40) == 0) key.set(c, *any);
    }
    c.parallel.zero = *rc::gen::inRange(-1, 5);
    c.parallel.partition =
        *rc::gen::element<std::string>("transformer", "[1]", "[2,2]", "[", "[-1]");
    for (const Finding& f : check_config(c)) {
      RC_ASSERT(!f.fix.empty());
      RC_ASSERT(!f.message.empty());
    }
  }));
}

// Other rules multiply degrees and batches: 2^64 with these.
TEST(Rules, WhereSizesAreTooLargeNothingElseIsAsked) {
  const Config c = load_config({"tiny", "parallel.dp=1048576", "parallel.pp=1048576",
                                "micro_batch=16777216", "parallel.schedule=interleaved"})
                       .config;
  const std::vector<Finding> findings = check_config(c);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].rule, std::string("world-size"));
}

// What the rules accept is what the engine can cut, and nothing that it can cut is refused.
TEST(Rules, AcceptedMeansDivisible) {
  int accepted = 0;
  const int64_t degrees[] = {1, 2, 3, 4, 6, 8};
  for (const int64_t tp : degrees) {
    for (const int64_t pp : degrees) {
      for (const int64_t dp : degrees) {
        for (int zero = 0; zero <= 3; ++zero) {
          Config c;
          c.model = find_model("tiny-10m");
          c.seq_len = 96;
          c.global_batch = 12;
          c.parallel.tp = tp;
          c.parallel.pp = pp;
          c.parallel.dp = dp;
          c.parallel.zero = zero;
          bool errors = false;
          for (const Finding& f : check_config(c)) errors |= f.severity == Severity::error;
          const bool fits = 6 % tp == 0 && pp <= 6 && 12 % dp == 0 && (zero < 2 || pp == 1);
          EXPECT_EQ(!errors, fits) << tp << " " << pp << " " << dp << " " << zero;
          accepted += fits ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace stretto
