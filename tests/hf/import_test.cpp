// Models from strangers, and tokenizers that do not belong to the model they come with.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "checkpoint/tiny_run.h"
#include "data/tokenizer.h"
#include "hf/exchange.h"
#include "hf/theirs.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/generate.h"

namespace stretto::test {
namespace {

using nlohmann::json;

struct Exported {
  TempDir dir{Where::memory};
  Config config = tiny_config(dir / "run");

  Exported() {
    config.model.ffn = 4 * config.model.hidden;
    config.model.vocab = 300;
    config.train.steps = 1;
    run(config);
    send("hf");
  }
  void send(const char* name, const std::string& tokenizer = "") const {
    export_hf(posix_fs(), checkpoint_of(config, 1), dir / name, {.tokenizer = tokenizer});
  }
  std::string text(const char* name) const { return read_file(posix_fs(), dir / name, 1 << 24); }
  ExchangeResult import(const char* target = "back") const {
    return import_hf(posix_fs(), dir / "hf", dir / target);
  }
};

// 256 bytes and <|endoftext|> as the last of `size` ids.
Tokenizer tokenizer_of(int32_t size) {
  TokenizerSpec spec = byte_tokenizer().spec();
  spec.split = true;
  spec.added.push_back({"<|endoftext|>", size - 1, true, false});
  return {std::move(spec), "t"};
}

// Each would be lost: the parts of other models, and what comes with other settings.
TEST(Import, ATensorThatWouldBeLostIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"gpt2", "transformer.h.0.crossattention.c_attn.weight"},
      {"gpt2", "transformer.h.1.attn_adapter.down.weight"},
      {"gpt2", "transformer.h.2.ln_1.weight"},  // of two layers
      {"gpt2", "transformer.h.-1.ln_1.weight"},
      {"gpt2", "transformer.h.9223372036854775808.ln_1.weight"},
      {"gpt2", "transformer.h.2.attn.bias"},
      {"gpt2", "h.0.attn.bias.weight"},
      {"gpt2", "score.weight"},
      {"gpt2", "transformer."},  // nothing without its prefix
      {"mpt", "transformer.wpe.weight"},
      {"mpt", "transformer.blocks.1.attn.Wqkv.bias"},
      {"mpt", "blocks.0.attn.q_ln.weight"},
      {"mpt", "transformer.norm_f.bias"}};
  for (const auto& [family, tensor] : cases) {
    const Theirs theirs(family);
    theirs.add(tensor, {6});
    EXPECT_ERROR(theirs.import(), ExitCode::bad_data, tensor);
    EXPECT_TRUE(theirs.wrote_nothing()) << tensor;
  }
}

TEST(Import, ManyTensorsThatWouldBeLostAreCounted) {
  const Theirs theirs("gpt2");
  for (int i = 0; i < 8; ++i) theirs.add(fmt::format("transformer.extra.{}", i), {1});
  EXPECT_ERROR(theirs.import(), ExitCode::bad_data, "transformer.extra.4 (3 more)");
  EXPECT_ERROR(theirs.import(), ExitCode::bad_data, "2 layers");
}

// Old versions stored the causal mask in each layer.
TEST(Import, StoredMasksAreNoWeights) {
  const Theirs theirs("gpt2");
  theirs.add("transformer.h.0.attn.bias", {1, 1, 8, 8});
  theirs.add("h.1.attn.bias", {1, 1, 8, 8});
  theirs.add("h.1.attn.masked_bias", {1});
  EXPECT_EQ(theirs.import().tensors, Theirs("gpt2").import().tensors);
}

std::vector<float> embedding_of(const Theirs& theirs) {
  const auto file = posix_fs().map(theirs.dir / "hf/model.safetensors");
  const Safetensors content = open_safetensors(*file);
  const StTensor* tensor = content.find("transformer.wte.weight");
  std::vector<float> values(static_cast<size_t>(tensor->count()));
  file->copy(values.data(), values.size() * sizeof(float), tensor->begin);
  return values;
}

TEST(Import, ATiedHeadMustBeTheEmbedding) {
  for (const char* family : {"gpt2", "mpt"}) {
    const Theirs equal(family), other(family), wrong(family);
    std::vector<float> head = embedding_of(equal);
    equal.add("lm_head.weight", {11, 6}, head);
    equal.import();
    EXPECT_TRUE(
        config_of(checkpoint_at(posix_fs(), equal.dir / "run").manifest()).model.tied_embedding);
    head.back() += 0.5f;
    other.add("lm_head.weight", {11, 6}, head);
    EXPECT_ERROR(other.import(), ExitCode::bad_data, "lm_head.weight is not equal to transformer");
    EXPECT_TRUE(other.wrote_nothing());
    other.set("/tie_word_embeddings", false);
    other.import();
    EXPECT_EQ(values_of(checkpoint_at(posix_fs(), other.dir / "run"), "head"), head);
    wrong.add("lm_head.weight", {12, 6});
    EXPECT_ERROR(wrong.import(), ExitCode::bad_data, "lm_head.weight is F32 [12, 6]");
  }
}

TEST(Import, WeightsBesideTheModelsAreNotLeftOut) {
  const Theirs theirs("mpt");
  theirs.dir.write("hf/adapter_model.safetensors", "");
  EXPECT_ERROR(theirs.import(), ExitCode::bad_data,
               "adapter_model.safetensors would be left out, because model.safetensors does not");
  std::filesystem::remove(theirs.dir / "hf/adapter_model.safetensors");
  theirs.dir.write("hf/model.safetensors.index.json", R"({"weight_map": {"a": "a.safetensors"}})");
  std::filesystem::copy_file(theirs.dir / "hf/model.safetensors", theirs.dir / "hf/a.safetensors");
  EXPECT_ERROR(theirs.import(), ExitCode::bad_data, "model.safetensors would be left out");
  std::filesystem::remove(theirs.dir / "hf/model.safetensors");
  theirs.import();
}

TEST(Import, WeightsOfPyTorchAreToBeConverted) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    const Theirs theirs("gpt2");
    theirs.dir.write(std::string("hf/") + name, "weights");
    theirs.import();  // not needed
    std::filesystem::remove_all(theirs.dir / "run");
    std::filesystem::remove(theirs.dir / "hf/model.safetensors");
    EXPECT_ERROR(theirs.import(), ExitCode::bad_data, std::string("weights in ") + name);
    try {
      theirs.import();
    } catch (const Error& error) {
      EXPECT_TRUE(
          error.hint().ends_with("save_pretrained(sys.argv[1])' '" + theirs.dir / "hf" + "'"))
          << error.hint();
    }
    EXPECT_TRUE(theirs.wrote_nothing());
  }
}

TEST(Import, NamesATensorWithoutWeights) {
  const Exported e;
  std::string file = e.text("hf/model.safetensors");
  file.replace(file.find("\"F32\""), 5, "\"I32\"");
  e.dir.write("hf/model.safetensors", file);
  EXPECT_ERROR(e.import(), ExitCode::bad_data, "hf/model.safetensors: tensor transformer.");
  EXPECT_ERROR(e.import(), ExitCode::bad_data, "I32");
}

TEST(Import, LeavesATokenizerThatItCannotUse) {
  const Exported e;
  int run = 0;
  for (const std::string& text :
       {std::string("{\"a\":"), std::string(R"({"model":{"type":"Unigram"}})"),
        tokenizer_to_json(tokenizer_of(301))}) {
    e.dir.write("hf/tokenizer.json", text);
    const std::string name = fmt::format("back{}", run++);
    EXPECT_FALSE(e.import(name.c_str()).tokenizer) << text.substr(0, 40);
    EXPECT_FALSE(std::filesystem::exists(e.dir / name + "/tokenizer.json"));
    const Checkpoint back = checkpoint_at(posix_fs(), e.dir / name);
    EXPECT_EQ(config_of(back.manifest()).data.tokenizer, "");
  }
}

TEST(Import, LeavesNoCheckpointWhenAskedToStop) {
  const Exported e;
  const size_t tensors = e.import().tensors;
  for (const size_t before : {size_t{1}, size_t{4}, tensors + 1}) {
    size_t calls = 0;
    EXPECT_ERROR(
        import_hf(posix_fs(), e.dir / "hf", e.dir / "cut", [&] { return ++calls == before; }),
        ExitCode::resumable, "stopped");
    const std::filesystem::path left = e.dir / "cut/checkpoints";
    EXPECT_TRUE(!std::filesystem::exists(left) || std::filesystem::is_empty(left)) << before;
  }
  EXPECT_EQ(e.import("cut").tensors, tensors);
}

TEST(Import, RemovesWhatAKilledOneLeft) {
  const Exported e;
  const std::filesystem::path left = e.dir / "back/checkpoints/step-0.tmp-18e989e0d361074f";
  std::filesystem::create_directories(left);
  e.dir.write("back/checkpoints/step-0.tmp-18e989e0d361074f/shard-00000.safetensors", "weights");
  e.import();
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST(Import, TakesATokenizerInEitherForm) {
  const Exported e;
  const Tokenizer tokenizer = tokenizer_of(300);
  e.dir.write("hf/vocab.json", vocab_to_json(tokenizer));
  e.dir.write("hf/merges.txt", merges_to_text(tokenizer));
  EXPECT_TRUE(e.import("pair").tokenizer);
  e.dir.write("hf/tokenizer.json", tokenizer_to_json(tokenizer));
  EXPECT_TRUE(e.import("one").tokenizer);
  for (const char* name : {"pair/tokenizer.json", "one/tokenizer.json"}) {
    EXPECT_TRUE(same_tokenizer(load_tokenizer(e.dir / name), tokenizer)) << name;
  }
}

TEST(Import, DoesNotReplaceATokenizer) {
  const Exported e;
  e.dir.write("hf/tokenizer.json", tokenizer_to_json(tokenizer_of(300)));
  std::filesystem::create_directory(e.dir / "back");
  const std::string other = tokenizer_to_json(tokenizer_of(290));
  e.dir.write("back/tokenizer.json", other);
  EXPECT_ERROR(e.import(), ExitCode::cannot_create, "back/tokenizer.json");
  EXPECT_EQ(e.text("back/tokenizer.json"), other);
  EXPECT_FALSE(std::filesystem::exists(e.dir / "back/checkpoints/step-0"));
  // What an import that was killed has left is no other one.
  e.dir.write("back/tokenizer.json", tokenizer_to_json(tokenizer_of(300)));
  EXPECT_TRUE(e.import().tokenizer);
}

TEST(HfExport, RefusesATokenizerOfMoreTokens) {
  const Exported e;
  const std::string larger = e.dir.write("larger.json", tokenizer_to_json(tokenizer_of(301)));
  EXPECT_ERROR(e.send("more", larger), ExitCode::bad_config, "301");
  EXPECT_FALSE(std::filesystem::exists(e.dir / "more"));
  e.send("bytes", "bytes");
  EXPECT_EQ(load_tokenizer(e.dir / "bytes").vocab_size(), 256);
}

TEST(HfExport, LeavesNothingWhenAskedToStop) {
  const Exported e;
  const size_t before = e.dir.entries();
  int tensors = 0;
  ExportOptions options;
  options.stop = [&] { return ++tensors == 4; };
  EXPECT_ERROR(export_hf(posix_fs(), checkpoint_of(e.config, 1), e.dir / "cut", options),
               ExitCode::resumable, "stopped");
  EXPECT_EQ(tensors, 4);
  EXPECT_EQ(e.dir.entries(), before);
}

// At whichever operation it died, the next export removes what it left.
TEST(HfExport, RemovesWhatAKilledOneLeft) {
  const Exported e;
  const Checkpoint checkpoint = checkpoint_of(e.config, 1);
  const size_t before = e.dir.entries();
  size_t most = 0;
  bool died = true;
  for (int at = 0; died; ++at) {
    FaultFs fs(posix_fs());
    fs.kill_at = at;
    try {
      export_hf(fs, checkpoint, e.dir / "cut");
    } catch (const Killed&) {
    }
    died = fs.dead;
    most = std::max(most, e.dir.entries());
    std::filesystem::remove_all(e.dir / "cut");  // it had its name already
    export_hf(posix_fs(), checkpoint, e.dir / "cut");
    ASSERT_EQ(e.dir.entries(), before + 1) << at;
    std::filesystem::remove_all(e.dir / "cut");
  }
  EXPECT_EQ(most, before + 2);  // the directory and what says that somebody writes it
}

// Readers before transformers 5 take this from here, and false where it is not said.
TEST(HfExport, SaysWhetherTextGetsASpace) {
  const Exported e;
  TokenizerSpec spec = tokenizer_of(300).spec();
  for (const bool prefix : {true, false}) {
    spec.prefix_space = prefix;
    const std::string file = e.dir.write("t.json", tokenizer_to_json(Tokenizer(spec, "t")));
    const std::string name = fmt::format("to{}", prefix);
    e.send(name.c_str(), file);
    const json said = json::parse(e.text((name + "/tokenizer_config.json").c_str()));
    EXPECT_EQ(said["add_prefix_space"], prefix);
    EXPECT_EQ(json::parse(e.text((name + "/config.json").c_str()))["eos_token_id"], 299);
  }
}

// Readers before transformers 5 add token_type_ids otherwise, which GPT-2 adds to its tokens.
TEST(HfExport, SaysWhatAModelReads) {
  const Exported e;
  e.send("to", "bytes");
  const json said = json::parse(e.text("to/tokenizer_config.json"));
  EXPECT_EQ(said["model_input_names"], (json{"input_ids", "attention_mask"}));
}

// With ALiBi texts may be longer than those of the training.
TEST(HfExport, SaysHowLongTextsCanBe) {
  for (const Positions positions : {Positions::learned, Positions::alibi}) {
    const TempDir dir(Where::memory);
    Config config = tiny_config(dir / "run");
    config.model.position_kind = positions;
    config.model.biases = Biases::all_or_none(false);
    config.model.ffn = 4 * config.model.hidden;
    config.model.vocab = 256;
    config.seq_len = 8;  // of 16 positions
    config.train.steps = 1;
    run(config);
    export_hf(posix_fs(), checkpoint_of(config, 1), dir / "hf", {.tokenizer = "bytes"});
    const json said = json::parse(content_of(dir / "hf/tokenizer_config.json"));
    EXPECT_EQ(said["model_max_length"], positions == Positions::learned ? 8 : 16);
  }
}

// As `config check` says it.
TEST(HfExport, RefusesWhatNoFamilyHolds) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir / "run");
  config.model.position_kind = Positions::alibi;
  config.train.steps = 1;
  run(config);
  const Checkpoint checkpoint = checkpoint_of(config, 1);
  EXPECT_ERROR(export_hf(posix_fs(), checkpoint, dir / "hf"), ExitCode::bad_config,
               "model.bias: true\n    prevents exports: in mpt");
  EXPECT_ERROR(export_hf(posix_fs(), checkpoint, dir / "hf"), ExitCode::bad_config,
               "model.ffn: 64\n    prevents exports: in mpt");
  EXPECT_FALSE(std::filesystem::exists(dir / "hf"));
}

TEST(Generate, LogitsThatAreNoNumbersAreAnError) {
  const Exported e;
  std::string file = e.text("hf/model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, file.data(), 8);
  const float huge = 3e38f;  // finite; their products are not
  for (size_t at = 8 + header; at < file.size(); at += 4) std::memcpy(file.data() + at, &huge, 4);
  e.dir.write("hf/model.safetensors", file);
  e.import();
  const Checkpoint back = checkpoint_at(posix_fs(), e.dir / "back");
  const auto backend = make_cpu_backend(1);
  Decoder decoder(*backend, back, eval_config(back), 4);
  EXPECT_ERROR(decoder.next(1), ExitCode::bad_data, "token 0");
  const auto text = memory_tokens("t", std::vector<int32_t>(40, 1));
  EXPECT_ERROR(evaluate_tokens(back, *text, {.config = eval_config(back)}), ExitCode::bad_data,
               "the loss on t is NaN or infinite");
}

}  // namespace
}  // namespace stretto::test
