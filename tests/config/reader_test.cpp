// Words to Config: files, overrides, models, interpolation, units, and mistakes with their place.
#include "config/reader.h"

#include "config/foreign_names.h"
#include "config/registry.h"
#include "config/schema.h"
#include "config/support.h"

namespace stretto {
namespace {

using test::error_of;
using test::load_error;
using test::TempDir;

Config load(const std::string& text) { return load_config_text(text, "my.yaml").config; }

TEST(Reader, ReadsEveryKindOfValue) {
  const Config c = load(
      "model: gpt2-124m\n"
      "seq_len: 512\n"
      "precision: amp_bf16\n"
      "micro_batch: auto\n"
      "global_batch: 1k\n"
      "seed: 9007199254740993\n"
      "deterministic: True\n"
      "memory_limit: 80GiB\n"
      "activation_checkpointing: selective\n"
      "parallel: {dp: 4, zero: FULL_SHARD, schedule: gpipe, reduce_dtype: bf16}\n"
      "train: {steps: 2M, lr: 3e-4, watchdog: 30min, ramp_up: {start: 32, samples: 1M}}\n"
      "data:\n  path: \"my file: 1.txt\"\n  tokenizer:\n"
      "log: {format: megatron}\n");
  EXPECT_EQ(c.model.hidden, 768);
  EXPECT_EQ(c.seq_len, 512);
  EXPECT_EQ(c.precision, Precision::amp_bf16);
  EXPECT_EQ(c.micro_batch, kAuto);
  EXPECT_EQ(c.global_batch, 1000);
  EXPECT_EQ(c.seed, 9007199254740993u);  // above 2^53: never passes through a double
  EXPECT_TRUE(c.deterministic);
  EXPECT_EQ(c.memory_limit, int64_t{80} << 30);
  EXPECT_EQ(c.activation_checkpointing, Checkpointing::selective);
  EXPECT_EQ(c.parallel.zero, 3);
  EXPECT_EQ(c.parallel.schedule, PipelineSchedule::gpipe);
  EXPECT_EQ(c.parallel.reduce_dtype, DType::bf16);
  EXPECT_EQ(c.train.steps, 2'000'000);
  EXPECT_DOUBLE_EQ(c.train.lr, 3e-4);
  EXPECT_DOUBLE_EQ(c.train.watchdog, 1800);
  EXPECT_EQ(c.train.ramp_up.samples, 1'000'000);
  EXPECT_EQ(c.data.path, "my file: 1.txt");
  EXPECT_EQ(c.data.tokenizer, "");
  EXPECT_EQ(c.log.format, LogFormat::megatron);
}

TEST(Reader, ZeroNames) {
  const std::pair<const char*, int> names[] = {
      {"0", 0},         {"1", 1},        {"2", 2},
      {"3", 3},         {"NO_SHARD", 0}, {"ZeRO-1", 1},
      {"zero-2", 2},    {"ZeRO-3", 3},   {"SHARD_GRAD_OP", 2},
      {"FULL_SHARD", 3}};
  for (const auto& [name, stage] : names) {
    EXPECT_EQ(load_config({"tiny", std::string("parallel.zero=") + name}).config.parallel.zero,
              stage)
        << name;
  }
  EXPECT_CONTAINS(load_error("model: tiny\nparallel: {zero: 4}\n").hint(), "FULL_SHARD");
}

TEST(Reader, LaterFilesWinAndOverridesWinOverFiles) {
  const TempDir dir;
  const std::string a = dir.write("a.yaml", "model: tiny\nseq_len: 64\ntrain: {lr: 1, steps: 5}\n");
  const std::string b = dir.write("b.yaml", "seq_len: 32\ntrain: {lr: 2}\n");
  const ResolvedConfig r = load_config({"train.lr=3", a, b, "train.warmup=1"});
  EXPECT_EQ(r.config.seq_len, 32);
  EXPECT_EQ(r.config.train.steps, 5);
  EXPECT_DOUBLE_EQ(r.config.train.lr, 3);
  EXPECT_EQ(r.origin_of("seq_len").text(), b + ":1:10");
  EXPECT_EQ(r.origin_of("train.steps").text(), a + ":3:23");
  EXPECT_EQ(r.origin_of("train.lr").text(), "command line");
  EXPECT_EQ(r.origin_of("model.layers").text(), "model tiny");
  EXPECT_EQ(r.origin_of("seed").text(), "default");
  EXPECT_EQ(r.origins.size(), config_keys().size());
}

TEST(Reader, ModelByNameMappingAndChange) {
  EXPECT_EQ(load_config({"gpt2-124m"}).config.model, find_model("gpt2-124m"));
  EXPECT_EQ(load_config({"model=gpt2-124m"}).config.model, find_model("gpt2-124m"));

  const Config changed = load("model: {name: gpt2-124m, layers: 2}\n");
  EXPECT_EQ(changed.model.layers, 2);
  EXPECT_EQ(changed.model.hidden, 768);
  EXPECT_EQ(changed.model.name, "gpt2-124m-custom");

  const Config narrow = load_config({"model.hidden=64", "gpt2-124m", "model.heads=4"}).config;
  EXPECT_EQ(narrow.model.hidden, 64);
  EXPECT_EQ(narrow.model.ffn, 256);

  const Config longer = load_config({"mpt-125m", "seq_len=4096", "model.positions=4096"}).config;
  EXPECT_EQ(longer.model.name, "mpt-125m");  // positions follow the sequence: still the same model

  const Config own = load("model: {layers: 2, hidden: 64, heads: 4, vocab: 256}\nseq_len: 32\n");
  EXPECT_EQ(own.model.name, "custom");
  EXPECT_EQ(own.model.positions, 32);
  EXPECT_EQ(own.model.ffn, 256);
}

TEST(Reader, SequenceFollowsTheModel) {
  const ResolvedConfig r = load_config({"gpt2-124m"});
  EXPECT_EQ(r.config.seq_len, 1024);
  EXPECT_EQ(r.origin_of("seq_len").text(), "model.positions");
}

TEST(Reader, Interpolation) {
  const Config c = load(
      "variables: {length: 64, root: runs, nested: {stage: [2, 2]}}\n"
      "model: {name: tiny, positions: \"${seq_len}\"}\n"
      "seq_len: ${variables.length}\n"
      "global_batch: ${variables.length}\n"
      "parallel: {pp: 2, partition: \"${variables.nested.stage}\"}\n"
      "output: ${variables.root}/${model.name}-${model.hidden}\n"
      "data: {path: 'a\\${b}'}\n");
  EXPECT_EQ(c.seq_len, 64);
  EXPECT_EQ(c.model.positions, 64);
  EXPECT_EQ(c.global_batch, 64);
  EXPECT_EQ(c.parallel.partition, "[2,2]");
  EXPECT_EQ(c.output, "runs/tiny-128");
  EXPECT_EQ(c.data.path, "a${b}");
  EXPECT_EQ(load("model: tiny\ndata: {path: '\\${b}'}\n").data.path, "${b}") << "at once";
  EXPECT_EQ(load("variables: {m: tiny}\nmodel: ${variables.m}\n").model.name, "tiny");
}

TEST(Reader, BrokenInterpolation) {
  const std::pair<const char*, const char*> cases[] = {
      {"seq_len: ${seq_lem}\n", "nothing has this name"},
      {"seq_len: ${seq_len}\n", "refers to itself"},
      {"variables: {a: '${variables.b}', b: '${variables.a}'}\n", "refers to itself"},
      {"seq_len: ${x\n", "without '}'"},
      {"output: a-${train}\ntrain: {lr: 1}\n", "cannot be part of a text"},
  };
  for (const auto& [text, message] : cases) {
    const Error error = load_error(std::string("model: tiny\n") + text);
    EXPECT_CONTAINS(std::string(error.what()), message);
    EXPECT_CONTAINS(std::string(error.what()), "my.yaml:");
    EXPECT_EQ(error.code(), ExitCode::bad_config);
  }
}

// A chain as long as mappings may be deep; longer ones could exhaust the stack.
TEST(Reader, ChainsOfVariablesEndSomewhere) {
  const auto chain = [](int length) {
    std::string text = "model: tiny\nvariables:\n  v0: 5\n";
    for (int i = 1; i < length; ++i) text += fmt::format("  v{}: ${{variables.v{}}}\n", i, i - 1);
    return text + fmt::format("seed: ${{variables.v{}}}\n", length - 1);
  };
  EXPECT_EQ(load(chain(60)).seed, 5u);
  EXPECT_CONTAINS(std::string(load_error(chain(70)).what()), "refers to itself");
  EXPECT_CONTAINS(std::string(load_error(chain(2000)).what()), "refers to itself");
}

TEST(Reader, VariablesAreNamedInFull) {
  const Error error = load_error("model: tiny\nvariables:\n  bs: 4\nmicro_batch: ${bs}\n");
  EXPECT_EQ(error.hint(), "write ${variables.bs}");
}

TEST(Reader, DoublingInterpolationEnds) {
  std::string text = "model: tiny\nvariables:\n  v0: xxxxxxxx\n";
  for (int i = 1; i < 60; ++i) {
    text += fmt::format("  v{0}: ${{variables.v{1}}}${{variables.v{1}}}\n", i, i - 1);
  }
  EXPECT_CONTAINS(std::string(load_error(text).what()), "more than a million characters");
  std::string lists = "model: tiny\nvariables:\n  v0: [1, 1]\n";
  for (int i = 1; i < 60; ++i) {
    lists += fmt::format("  v{0}: [\"${{variables.v{1}}}\", \"${{variables.v{1}}}\"]\n", i, i - 1);
  }
  EXPECT_EQ(load_error(lists).code(), ExitCode::bad_config);
}

struct Mistake {
  const char* text;
  const char* message;
  const char* fix;
};

TEST(Reader, MistakesNameThePlaceAndTheFix) {
  const Mistake cases[] = {
      {"model: tiny\nseq_length: 5\n", "my.yaml:2:1  seq_length: unknown key", "'seq_len'"},
      {"model: tiny\nparallel:\n  ttp: 5\n", "my.yaml:3:3  parallel.ttp: unknown key",
       "'parallel.tp'"},
      {"model: {name: tiny, n_layers: 5}\n", "my.yaml:1:21  model.n_layers: unknown key",
       "'model.layers'"},
      {"model: tiny\nlr: 1\n", "lr: unknown key", "'train.lr'"},
      {"model: tiny\ndevice_train_microbatch_size: 1\n", "unknown key", "'micro_batch'"},
      {"model: tiny\nparallel.tp: 2\n", "parallel.tp: unknown key", "parallel: {tp: VALUE}"},
      {"model: tiny\nqwertz: 2\n", "qwertz: unknown key", "config keys"},
      {"model: tiny\nseq_len: many\n", "my.yaml:2:10  seq_len: many", "2048"},
      {"model: tiny\nseq_len: 1.5\n", "whole number", "whole number"},
      {"model: tiny\nseq_len: [1]\n", "takes a whole number, not a list", "seq_len: VALUE"},
      {"model: tiny\nseq_len:\n", "takes a whole number, not nothing", "seq_len: VALUE"},
      {"model: tiny\nseq_len: {a: 1}\n", "takes a whole number, not a mapping", "VALUE"},
      {"model: tiny\nseq_len: 99999999999999999999\n", "fits 64 bits", "whole number"},
      {"model: tiny\nseq_len: 1e400\n", "is not a count", "2048"},
      {"model: tiny\ndeterministic: maybe\n", "is not true or false", "true or false"},
      {"model: tiny\nprecision: amp_bf61\n", "is not a known precision", "'amp_bf16'"},
      {"model: tiny\ndevice: gpu\n", "is not a known device", "cpu or cuda"},
      {"model: tiny\nmemory_limit: 80GX\n", "is not a size in bytes", "80GiB"},
      {"model: tiny\nmicro_batch: -1\n", "is not a size", "write 1 or more, or auto"},
      {"model: tiny\ngpu_clock: -1\n", "is not a size", "write 0 or more, or auto"},
      {"model: tiny\ntrain: {watchdog: 3parsec}\n", "is not a duration", "30min"},
      {"model: tiny\ntrain: {lr: nan}\n", "is not a number", "6e-4"},
      {"model: tiny\ntrain: 5\n", "is a group of keys", "config show"},
      {"model: tiny\nparallel: {partition: [a]}\n", "is not a count", "2048"},
      {"model: tiny\nparallel: {partition: [[1]]}\n", "list of whole numbers", "[3, 4, 5]"},
      {"model: tiny\noutput: \"a\\nb\"\n", "is not one line", "one line"},
      {"model: tiny\noutput: a\x1b\n", "my.yaml:2:10  byte 0x1b is a control character",
       "remove it"},
      {"model: tiny\noutput: a\xff\n", "my.yaml:2:10  byte 0xff is not UTF-8 text", "UTF-8"},
      {"model: tinny\n", "my.yaml:1:8  model: tinny", "'tiny'"},
      {"model: [tiny]\n", "is a group of keys", "config show"},
      {"seq_len: 5\n", "no model is given", "model=tiny"},
      {"model: {hidden: 64, heads: 4, vocab: 256}\nseq_len: 8\n", "model.layers is not given",
       "registry model"},
      {"model: {layers: 1, hidden: 64, heads: 4, vocab: 256}\n", "neither seq_len", "seq_len"},
      {"- a\n- b\n", "is a mapping of keys", "model: tiny"},
      {"just text\n", "is a mapping of keys", "model: tiny"},
  };
  for (const Mistake& c : cases) {
    SCOPED_TRACE(c.text);
    const Error error = load_error(c.text);
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    EXPECT_CONTAINS(std::string(error.what()), c.message);
    EXPECT_CONTAINS(error.hint(), c.fix);
  }
}

TEST(Reader, AnEmptyValueIsReportedAtItsKey) {
  const Error error = load_error("model: tiny\ntrain:\n  lr:\n  steps: 3\n");
  EXPECT_CONTAINS(std::string(error.what()), "my.yaml:3:3  train.lr");
}

TEST(Reader, AKeyWithDotsIsShownNested) {
  const Error error = load_error("model: tiny\ntrain.ramp_up.start: 4\n");
  EXPECT_CONTAINS(error.hint(), "train: {ramp_up: {start: VALUE}}");
}

TEST(Reader, AllMistakesAtOnce) {
  const Error error = load_error("model: tiny\nseq_lem: 1\nparallel: {tq: 1}\nseed: x\n");
  const std::string text = error.what();
  EXPECT_CONTAINS(text, "my.yaml:2:1  seq_lem");
  EXPECT_CONTAINS(text, "fix: did you mean 'seq_len'?");
  EXPECT_CONTAINS(text, "my.yaml:3:12  parallel.tq");
  EXPECT_CONTAINS(text, "fix: did you mean 'parallel.tp', 'parallel.dp' or 'parallel.pp'?");
  EXPECT_CONTAINS(text, "my.yaml:4:7  seed: x");
}

TEST(Reader, NamesOfOtherFrameworksAreKnown) {
  const std::pair<const char*, const char*> cases[] = {{"max_steps", "train.steps"},
                                                       {"optimizer.learning_rate", "train.lr"},
                                                       {"tensor_parallel_degree", "parallel.tp"},
                                                       {"save_interval", "checkpoint.every"},
                                                       {"log-interval", "log.every"},
                                                       {"tensorboard-dir", "log.tensorboard"},
                                                       {"lr", "train.lr"},
                                                       {"data_path", "data.path"},
                                                       {"block_size", "seq_len"}};
  for (const auto& [name, key] : cases) EXPECT_EQ(key_called(name), key) << name;
  EXPECT_EQ(key_called("colour"), "");
  const Error error = load_error("model: tiny\nmax_steps: 4\n");
  EXPECT_CONTAINS(error.hint(), "did you mean 'train.steps'?");
  EXPECT_CONTAINS(load_error("model: tiny\ncolour: 4\n").hint(), "stretto config keys");
}

TEST(Reader, WhatStrettoDoesNotHaveIsSaid) {
  const std::pair<const char*, const char*> cases[] = {
      {"model.kv_heads=8", "grouped-query attention"},
      {"num_key_value_heads=8", "grouped-query attention"},
      {"model.rope=true", "rotary position embeddings"},
      {"model.norm-type=rmsnorm", "RMSNorm"},
      {"model.activation=swiglu", "SwiGLU"},
      {"parallel.cp=2", "context parallelism"},
      {"parallel.ep=2", "mixtures of experts"},
      {"model.sliding_window=4096", "sliding-window attention"},
      {"model.dropout=0.1", "dropout"}};
  for (const auto& [word, what] : cases) {
    try {
      load_config({"tiny", word});
      ADD_FAILURE() << word << " was taken";
    } catch (const Error& error) {
      const std::string text = std::string(error.what()) + error.hint();
      EXPECT_CONTAINS(text, std::string("not supported: ") + what);
      EXPECT_CONTAINS(text, "README, Known limits");
      EXPECT_EQ(text.find("did you mean"), std::string::npos) << text;
    }
  }
  for (const Key& key : config_keys()) EXPECT_EQ(not_supported(key.name), "") << key.name;
}

TEST(Reader, OverridesAreReadStrictlyToo) {
  EXPECT_EQ(load_config({"tiny", "parallel.partition=[2, 2]"}).config.parallel.partition, "[2,2]");
  EXPECT_EQ(load_config({"tiny", "output=a=b: c"}).config.output, "a=b: c");
  EXPECT_EQ(load_config({"tiny", "output="}).config.output, "");
  const std::pair<const char*, const char*> cases[] = {
      {"trian.lr=1", "command line  trian"},  {"train..lr=1", "a part of the key is empty"},
      {".a=1", "a part of the key is empty"}, {"seq_len=x", "command line  seq_len: x"},
      {"seq_len=", "command line  seq_len"},  {"parallel.partition=[1", "command line"},
      {"seq_len=\xff", "is not UTF-8"},       {"model.layers.x=1", "takes a whole number"}};
  for (const auto& [word, message] : cases) {
    const Error error = error_of([w = word] { load_config({"tiny", w}); });
    EXPECT_EQ(error.code(), ExitCode::bad_config) << word;
    EXPECT_CONTAINS(std::string(error.what()), message);
  }
}

TEST(Reader, AnOverrideDoesNotHideAValueWhereKeysBelong) {
  const TempDir dir;
  const std::string file = dir.write("a.yaml", "model: tiny\ntrain: 5\n");
  const std::string inner = dir.write("b.yaml", "model: tiny\ntrain:\n  loss_scale: 5\n");
  const std::string right = dir.write("c.yaml", "train:\n  steps: 1\n");
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{file, "train.steps=1"}, "a.yaml:2:8  train: 5"},
      {{file, right}, "a.yaml:2:8  train: 5"},
      {{inner, "train.loss_scale.initial=4"}, "b.yaml:3:15  train.loss_scale: 5"}};
  for (const auto& [words, message] : cases) {
    const Error error = error_of([w = words] { load_config(w); });
    EXPECT_EQ(error.code(), ExitCode::bad_config) << message;
    EXPECT_CONTAINS(std::string(error.what()), message);
  }
}

TEST(Reader, AlibiBringsItsGeluUnlessToldOtherwise) {
  const auto gelu = [](std::vector<std::string> words) {
    return load_config(words).config.model.mlp;
  };
  EXPECT_EQ(gelu({"tiny"}), Mlp::gelu_tanh);
  EXPECT_EQ(gelu({"tiny", "model.position_kind=alibi"}), Mlp::gelu);
  EXPECT_EQ(gelu({"tiny", "model.position_kind=alibi", "model.gelu=tanh"}), Mlp::gelu_tanh);
  EXPECT_EQ(gelu({"tiny", "model.gelu=exact"}), Mlp::gelu);
  EXPECT_EQ(gelu({"bloom-176b"}), Mlp::gelu_tanh);  // ALiBi, but the registry knows better
  EXPECT_EQ(gelu({"model.layers=1", "model.hidden=8", "model.heads=1", "model.vocab=8", "seq_len=8",
                  "model.position_kind=alibi"}),
            Mlp::gelu);
}

TEST(Reader, WordsThatAreNothing) {
  Error error = error_of([] { load_config({"gpt2-12m"}); });
  EXPECT_EQ(error.code(), ExitCode::no_input);
  EXPECT_CONTAINS(error.hint(), "gpt2-124m");
  error = error_of([] { load_config({"no/such.yaml"}); });
  EXPECT_EQ(error.code(), ExitCode::no_input);
  EXPECT_CONTAINS(error_of([] { load_config({}); }).hint(), "model=tiny");
}

TEST(Reader, EmptyFileAddsNothing) {
  const TempDir dir;
  const std::string empty = dir.write("empty.yaml", "");
  EXPECT_EQ(load_config({empty, "tiny"}).config.model.name, "tiny");
  EXPECT_EQ(error_of([&] { load_config({empty}); }).code(), ExitCode::bad_config);
}

}  // namespace
}  // namespace stretto
