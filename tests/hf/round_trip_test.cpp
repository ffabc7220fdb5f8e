// Export and import use one table per family: what goes out comes back bit by bit.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>

#include "checkpoint/safetensors.h"
#include "checkpoint/tiny_run.h"
#include "config/reader.h"
#include "hf/exchange.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"
#include "train/checkpoint.h"

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

}  // namespace
}  // namespace stretto::test
