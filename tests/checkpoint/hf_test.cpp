// Export and import use one table per family: what goes out comes back bit by bit.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>

#include "checkpoint/safetensors.h"
#include "checkpoint/tiny_run.h"
#include "config/reader.h"
#include "hf/exchange.h"
#include "hf/families.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/generate.h"

namespace stretto::test {
namespace {

Config config_for(const TempDir& dir, Positions positions, bool bias, bool tied) {
  Config config = tiny_config(dir / "run");
  config.model.position_kind = positions;
  config.model.mlp = positions == Positions::alibi ? Mlp::gelu : Mlp::gelu_tanh;
  config.model.biases = Biases::all_or_none(bias);
  config.model.tied_embedding = tied;
  config.model.ffn = 4 * config.model.hidden;
  config.model.vocab = 256;
  config.train.steps = 3;
  return config;
}

struct Family {
  const char* name;
  Positions positions;
  bool bias, tied;
};

struct RoundTrip : ::testing::TestWithParam<Family> {};

TEST_P(RoundTrip, ComesBackBitEqual) {
  const Family& family = GetParam();
  const TempDir dir(Where::memory);
  Config config = config_for(dir, family.positions, family.bias, family.tied);
  config.seq_len = 8;  // of 16 positions
  run(config);
  const Checkpoint original = checkpoint_of(config, 3);
  ExportOptions options;
  options.shard_bytes = 100'000;  // several files
  options.tokenizer = "bytes";
  const ExchangeResult sent = export_hf(posix_fs(), original, dir / "hf", options);
  EXPECT_GT(sent.files, 1u);
  EXPECT_TRUE(sent.tokenizer);
  EXPECT_EQ(sent.family, family.positions == Positions::learned ? "gpt2" : "mpt");
  EXPECT_ERROR(export_hf(posix_fs(), original, dir / "hf", options), ExitCode::cannot_create,
               "exists");

  const ExchangeResult back = import_hf(posix_fs(), dir / "hf", dir / "back");
  EXPECT_EQ(back.files, sent.files);
  EXPECT_ERROR(import_hf(posix_fs(), dir / "hf", dir / "back"), ExitCode::cannot_create, "already");
  const Checkpoint imported = checkpoint_at(posix_fs(), dir / "back");
  EXPECT_EQ(config_of(imported.manifest()).seq_len, config.seq_len);
  ModelShape model = config_of(imported.manifest()).model;
  model.name = config.model.name;
  EXPECT_EQ(model, config.model);
  for (const ParameterSpec& spec : parameter_list(config.model)) {
    EXPECT_EQ(values_of(original, spec.name), values_of(imported, spec.name)) << spec.name;
  }

  // Training goes on from an imported model, with fresh moments and its own settings.
  Config tuned = load_config({dir / "back/model.yaml"}).config;
  EXPECT_EQ(tuned.model, config_of(imported.manifest()).model);
  EXPECT_EQ(tuned.seq_len, config.seq_len);
  tuned.global_batch = config.global_batch;
  tuned.micro_batch = config.micro_batch;
  tuned.threads = config.threads;
  tuned.train = config.train;
  tuned.output = dir / "back";
  tuned.seed = 99;
  EXPECT_EQ(run(tuned).steps.size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(All, RoundTrip,
                         ::testing::Values(Family{"gpt2", Positions::learned, true, true},
                                           Family{"gpt2_no_bias", Positions::learned, false, true},
                                           Family{"gpt2_untied", Positions::learned, true, false},
                                           Family{"mpt", Positions::alibi, false, true},
                                           Family{"mpt_untied", Positions::alibi, false, false}),
                         [](const auto& test) { return test.param.name; });

// Our models without biases are theirs with zeros, and theirs learn.
TEST(Import, BiasesThatOthersHaveTrainedAreNotLost) {
  const TempDir dir(Where::memory);
  const Config config = config_for(dir, Positions::learned, false, true);
  run(config);
  export_hf(posix_fs(), checkpoint_of(config, 3), dir / "hf");
  const Safetensors stored = open_safetensors(*posix_fs().map(dir / "hf/model.safetensors"));
  const StTensor* bias = stored.find("transformer.h.1.mlp.c_fc.bias");
  ASSERT_NE(bias, nullptr);
  const float trained = 0.25f;
  std::fstream file(dir / "hf/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(bias->begin + 4);
  file.write(reinterpret_cast<const char*>(&trained), sizeof(trained));
  file.close();
  import_hf(posix_fs(), dir / "hf", dir / "back");
  const Checkpoint imported = checkpoint_at(posix_fs(), dir / "back");
  EXPECT_TRUE(config_of(imported.manifest()).model.biases.mlp);
  EXPECT_TRUE(load_config({dir / "back/model.yaml"}).config.model.biases.mlp);
  EXPECT_EQ(values_of(imported, "h.1.mlp.up.bias").at(1), trained);
  EXPECT_EQ(values_of(imported, "h.0.mlp.up.bias").at(1), 0.0f);
}

// Instead of becoming an infinity of the model that is read back.
TEST(Export, AValueBeyondF16IsRefused) {
  const TempDir dir(Where::memory);
  const Config config = config_for(dir, Positions::learned, true, true);
  run(config);
  export_hf(posix_fs(), checkpoint_of(config, 3), dir / "hf");
  const Safetensors stored = open_safetensors(*posix_fs().map(dir / "hf/model.safetensors"));
  const float large = 1e6f;
  std::fstream file(dir / "hf/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(stored.tensors.front().begin);
  file.write(reinterpret_cast<const char*>(&large), sizeof(large));
  file.close();
  import_hf(posix_fs(), dir / "hf", dir / "run2");
  const Checkpoint with_large = checkpoint_at(posix_fs(), dir / "run2");
  EXPECT_ERROR(
      export_hf(posix_fs(), with_large, dir / "f16", {.tokenizer = "", .dtype = DType::f16}),
      ExitCode::bad_data, "fp16 cannot represent");
  EXPECT_FALSE(std::filesystem::exists(dir / "f16/model.safetensors"));
  EXPECT_NO_THROW(
      export_hf(posix_fs(), with_large, dir / "bf16", {.tokenizer = "", .dtype = DType::bf16}));
}

// What narrow training computes with is what is written: nearest, halves to even.
TEST(Export, NarrowTypesAreRoundedToNearestEven) {
  const TempDir dir(Where::memory);
  const Config config = config_for(dir, Positions::learned, true, true);
  run(config);
  const Checkpoint original = checkpoint_of(config, 3);
  const auto wide = export_hf(posix_fs(), original, dir / "f32");
  for (const auto& [type, stored, torch] :
       {std::tuple(DType::bf16, "BF16", "bfloat16"), std::tuple(DType::f16, "F16", "float16")}) {
    const std::string to = dir / stored;
    const auto sent = export_hf(posix_fs(), original, to, {.tokenizer = "", .dtype = type});
    EXPECT_EQ(2 * sent.bytes, wide.bytes);
    EXPECT_NE(read_file(posix_fs(), to + "/config.json", 1 << 20)
                  .find(fmt::format("\"torch_dtype\": \"{}\"", torch)),
              std::string::npos);
    const auto file = posix_fs().map(to + "/model.safetensors");
    for (const StTensor& tensor : open_safetensors(*file).tensors) EXPECT_EQ(tensor.type, stored);
    import_hf(posix_fs(), to, to + "-back");
    const Checkpoint back = checkpoint_at(posix_fs(), to + "-back");
    for (const ParameterSpec& spec : parameter_list(config.model)) {
      std::vector<float> wanted = values_of(original, spec.name);
      for (float& x : wanted) {
        x = type == DType::bf16 ? to_float(to_bf16(x)) : to_float(to_f16(x));
      }
      EXPECT_EQ(values_of(back, spec.name), wanted) << spec.name;
    }
  }
}

TEST(Import, TheModelIsCalledLikeItsDirectory) {
  const TempDir dir(Where::memory);
  const Config config = config_for(dir, Positions::learned, true, true);
  run(config);
  const std::pair<const char*, const char*> cases[] = {
      {"my-model_2.b", "my-model_2.b"}, {"..my model", "mymodel"}, {"\u00e4", "gpt2"}};
  int number = 0;
  for (const auto& [directory, name] : cases) {
    export_hf(posix_fs(), checkpoint_of(config, 3), dir / directory);
    for (const char* end : {"", "/", "/.", "/../"}) {
      const bool up = std::string_view(end) == "/../";
      const std::string to = dir / fmt::format("run{}", ++number);
      const std::string from = (dir / directory) + end + (up ? directory : "");
      import_hf(posix_fs(), from, to);
      EXPECT_EQ(config_of(checkpoint_at(posix_fs(), to).manifest()).model.name, name) << from;
      EXPECT_EQ(load_config({to + "/model.yaml"}).config.model.name, name) << from;
    }
  }
}

TEST(Import, NotANumberIsRefusedAndNothingWritten) {
  const TempDir dir(Where::memory);
  const Config config = config_for(dir, Positions::learned, true, true);
  run(config);
  export_hf(posix_fs(), checkpoint_of(config, 3), dir / "hf", {});
  std::fstream file(dir / "hf/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file.good());
  file.seekp(-4, std::ios::end);
  file.write("\xff\xff\xff\xff", 4);  // NaN in f32 and in bf16
  file.close();
  EXPECT_ERROR(import_hf(posix_fs(), dir / "hf", dir / "back"), ExitCode::bad_data, "nan");
  EXPECT_FALSE(std::filesystem::exists(dir / "back"));
}

TEST(Import, ATensorInTwoFilesIsRefused) {
  const TempDir dir(Where::memory);
  const Config config = config_for(dir, Positions::learned, true, true);
  run(config);
  export_hf(posix_fs(), checkpoint_of(config, 3), dir / "hf", {});
  namespace fs = std::filesystem;
  fs::copy_file(dir / "hf/model.safetensors", dir / "hf/other.safetensors");
  dir.write("hf/model.safetensors.index.json",
            R"({"weight_map": {"a": "model.safetensors", "b": "other.safetensors"}})");
  EXPECT_ERROR(import_hf(posix_fs(), dir / "hf", dir / "back"), ExitCode::bad_data,
               "model.safetensors, too");
  EXPECT_FALSE(fs::exists(dir / "back"));
}

TEST(HfFamilies, NamesAreUniqueAndComplete) {
  ModelShape model{"m", 3, 32, 4, 100, 16, 128};
  model.tied_embedding = false;
  for (const HfFamily family : {HfFamily::gpt2, HfFamily::mpt}) {
    if (family == HfFamily::mpt) {
      model.position_kind = Positions::alibi;
      model.biases = Biases::all_or_none(false);
    }
    std::set<std::string> ours, theirs;
    for (const HfTensor& tensor : hf_tensors(family, model)) {
      EXPECT_TRUE(ours.insert(tensor.spec.name).second);
      EXPECT_TRUE(theirs.insert(tensor.name).second);
      EXPECT_FALSE(tensor.absent);
    }
    EXPECT_EQ(ours.size(), parameter_list(model).size());
  }
  model.biases = Biases::all_or_none(true);
  EXPECT_ERROR(family_of(model), ExitCode::bad_config, "biases");
}

TEST(HfConfig, SaysHowLongTheSequencesWere) {
  const ModelShape model{"m", 1, 8, 2, 256, 8, 32};
  ModelShape alibi = model;
  alibi.position_kind = Positions::alibi;
  alibi.biases = Biases::all_or_none(false);
  for (const ModelShape& m : {model, alibi}) {
    EXPECT_EQ(trained_length(hf_config_json(m, 5, -1), m), 5);
    EXPECT_EQ(trained_length(hf_config_json(m, 8, -1), m), 8);
    EXPECT_EQ(model_from_hf_config(hf_config_json(m, 5, -1), "c").positions, 8);
  }
  for (const char* other : {"{}", R"({"n_ctx":0})", R"({"n_ctx":9})", R"({"n_ctx":"5"})"}) {
    EXPECT_EQ(trained_length(other, model), 8) << other;
  }
}

TEST(HfConfig, SaysWhichTokenEndsATextOrThatNoneDoes) {
  const ModelShape model{"m", 1, 8, 2, 256, 8, 32};
  EXPECT_NE(hf_config_json(model, 8, -1).find("\"eos_token_id\": null"), std::string::npos);
  EXPECT_NE(hf_config_json(model, 8, 5).find("\"eos_token_id\": 5"), std::string::npos);
}

// Whatever goes wrong, nothing is left, and nothing that was there before is touched.
TEST(HfExport, LeavesOthersAlone) {
  const TempDir dir(Where::memory);
  const Config config = config_for(dir, Positions::learned, true, true);
  run(config);
  const Checkpoint checkpoint = checkpoint_of(config, 3);
  std::filesystem::create_directory(dir / "hf.tmp");
  dir.write("hf.tmp/mine", "precious");
  const auto names = [&] {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
      if (!entry.path().string().starts_with(dir / "run")) found.insert(entry.path().filename());
    }
    return found;
  };
  for (const char* kind : {"make_dir", "create", "write", "sync", "sync_dir", "rename"}) {
    FaultFs fs(posix_fs());
    fs.fail_kind = kind;
    fs.fail_at = 0;
    fs.error_number = ENOSPC;
    EXPECT_THROW(export_hf(fs, checkpoint, dir / "hf", {}), Error) << kind;
    EXPECT_EQ(names(), (std::set<std::string>{"hf.tmp", "mine"})) << kind;
  }
  export_hf(posix_fs(), checkpoint, dir / "hf/", {});
  EXPECT_TRUE(std::filesystem::exists(dir / "hf/config.json"));
  EXPECT_TRUE(std::filesystem::exists(dir / "hf.tmp/mine"));
  EXPECT_EQ(import_hf(posix_fs(), dir / "hf", dir / "back").family, "gpt2");
}

TEST(HfConfig, RefusesWhatWeDoNotCompute) {
  const std::string good =
      R"({"model_type":"gpt2","vocab_size":5,"n_positions":8,"n_embd":8,"n_layer":1,"n_head":2)";
  EXPECT_EQ(model_from_hf_config(good + "}", "c").ffn, 32);
  EXPECT_EQ(model_from_hf_config(good + "}", "c").mlp, Mlp::gelu_tanh);
  const std::string exact = good + R"(,"activation_function":"gelu"})";
  EXPECT_EQ(model_from_hf_config(exact, "c").mlp, Mlp::gelu);
  for (const char* extra :
       {R"(,"activation_function":"relu"})", R"(,"layer_norm_epsilon":1e-6})", R"(,"n_inner":-1})",
        R"(,"scale_attn_by_inverse_layer_idx":true})", R"(,"n_inner":99999999999999})"}) {
    EXPECT_ERROR(model_from_hf_config(good + extra, "c"), ExitCode::bad_data, "c");
  }
  EXPECT_ERROR(model_from_hf_config(R"({"model_type":"llama"})", "c"), ExitCode::bad_data, "llama");
  EXPECT_ERROR(model_from_hf_config("[]", "c"), ExitCode::bad_data, "model_type");
}

// The cache gives the logits that the whole forward pass gives: their loss is the evaluation's.
TEST(Generate, DecodesWhatEvaluationSees) {
  struct Case {
    Positions positions;
    Precision precision;
    double limit;
  };
  for (const auto& [positions, precision, limit] :
       {Case{Positions::learned, Precision::fp32, 1e-5},
        Case{Positions::alibi, Precision::fp32, 1e-5},
        Case{Positions::learned, Precision::amp_bf16, 5e-3}}) {
    const TempDir dir(Where::memory);
    Config config = config_for(dir, positions, positions == Positions::learned, true);
    config.precision = precision;
    run(config);
    const Checkpoint checkpoint = checkpoint_of(config, 3);
    std::vector<int32_t> ids;
    for (int i = 0; i < 17; ++i) ids.push_back(i * 37 % 256);
    const auto source = memory_tokens("test", ids);
    EvalSettings settings;
    settings.config = eval_config(checkpoint);
    const EvalResult expected = evaluate_tokens(checkpoint, *source, settings);
    EXPECT_EQ(expected.tokens, 16);

    const auto backend = make_cpu_backend(1);
    Decoder decoder(*backend, checkpoint, eval_config(checkpoint), 16);
    double sum = 0;
    for (size_t i = 0; i < 16; ++i) {
      const std::vector<float>& logits = decoder.next(ids[i]);
      double total = 0;
      for (const float x : logits) {
        total += std::exp(static_cast<double>(x));
        // In the run's precision, and so in its memory.
        if (precision == Precision::amp_bf16) {
          EXPECT_EQ(to_float(to_bf16(x)), x);
        }
      }
      sum += std::log(total) - static_cast<double>(logits[static_cast<size_t>(ids[i + 1])]);
    }
    EXPECT_NEAR(sum / 16, expected.loss, limit);
    EXPECT_THROW(decoder.next(0), Error);
  }
}

// Past its capacity a model goes on as one that has read the newer half alone.
TEST(Generate, ForgetsTheOlderHalf) {
  for (const Positions positions : {Positions::learned, Positions::alibi}) {
    const TempDir dir(Where::memory);
    const Config config = config_for(dir, positions, true, true);
    run(config);
    const Checkpoint checkpoint = checkpoint_of(config, 3);
    const auto backend = make_cpu_backend(1);
    Decoder rolling(*backend, checkpoint, eval_config(checkpoint), 8);
    Decoder fresh(*backend, checkpoint, eval_config(checkpoint), 8);
    RollingDecoder reader(rolling);
    for (int32_t i = 0; i < 8; ++i) reader.next(i);
    EXPECT_FALSE(reader.forgot());
    for (int32_t i = 4; i < 8; ++i) fresh.next(i);
    for (int32_t i = 8; i < 12; ++i) EXPECT_EQ(reader.next(i), fresh.next(i)) << i;
    EXPECT_TRUE(reader.forgot());
    fresh.restart();
    for (int32_t i = 8; i < 12; ++i) fresh.next(i);
    EXPECT_EQ(reader.next(12), fresh.next(12)) << "and again";
    Decoder one(*backend, checkpoint, eval_config(checkpoint), 1);
    RollingDecoder single(one);
    for (int32_t i = 0; i < 3; ++i) single.next(i);
  }
}

TEST(Generate, ReadsNoFurtherThanItWasTrained) {
  Config config;
  config.model.positions = 128;
  config.seq_len = 32;
  config.model.position_kind = Positions::learned;
  EXPECT_EQ(context_limit(config), 32);
  config.seq_len = 256;
  EXPECT_EQ(context_limit(config), 128);
  config.seq_len = 32;
  config.model.position_kind = Positions::alibi;
  EXPECT_EQ(context_limit(config), 128);
}

TEST(Generate, SamplesAsAsked) {
  const std::vector<float> logits = {1, 3, 2, 3, -5};
  EXPECT_EQ(sample_token(logits, {0, 0, 1, 0}, 0), 1);
  std::vector<int> seen(5, 0), top_two(5, 0), nucleus(5, 0);
  for (uint64_t i = 0; i < 2000; ++i) {
    ++seen[static_cast<size_t>(sample_token(logits, {1, 0, 1, 5}, i))];
    ++top_two[static_cast<size_t>(sample_token(logits, {1, 2, 1, 5}, i))];
    ++nucleus[static_cast<size_t>(sample_token(logits, {1, 0, 0.9, 5}, i))];
  }
  double total = 0;
  for (const float x : logits) total += std::exp(static_cast<double>(x));
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(seen[i], 2000 * std::exp(static_cast<double>(logits[i])) / total, 80);
  }
  EXPECT_EQ(top_two[1] + top_two[3], 2000);
  EXPECT_EQ(nucleus[0] + nucleus[4], 0);
  EXPECT_GT(nucleus[2], 0);
  EXPECT_EQ(sample_token(logits, {1, 0, 1, 5}, 3), sample_token(logits, {1, 0, 1, 5}, 3));
  const float never = -std::numeric_limits<float>::infinity();
  for (uint64_t i = 0; i < 2000; ++i) {
    EXPECT_EQ(sample_token({never, 0, never}, {1, 3, 1, 5}, i), 1);
  }
}

}  // namespace
}  // namespace stretto::test
