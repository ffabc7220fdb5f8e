// Models from strangers, and tokenizers that do not belong to the model they come with.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/tiny_run.h"
#include "data/tokenizer.h"
#include "hf/exchange.h"
#include "hf/families.h"
#include "support/expect_error.h"
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

TEST(Import, RefusesMoreLayersThanConfigNames) {
  const Exported e;
  ASSERT_GT(e.config.model.layers, 1);
  json config = json::parse(e.text("hf/config.json"));
  config["n_layer"] = e.config.model.layers - 1;
  e.dir.write("hf/config.json", config.dump());
  EXPECT_ERROR(e.import(), ExitCode::bad_data, "layers");
  EXPECT_FALSE(std::filesystem::exists(e.dir / "back"));
}

// One more than the largest of these numbers is no number of 64 bits.
TEST(Import, RefusesLayersThatCannotBe) {
  const Exported e;
  const std::string file = e.text("hf/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const std::string values = file.substr(sizeof length + length);
  const auto with = [&](const std::string& name) {  // one tensor more, of one number
    json header = json::parse(file.substr(sizeof length, length));
    header[name] = {
        {"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {values.size(), values.size() + 4}}};
    const std::string text = header.dump();
    const uint64_t bytes = text.size();
    const std::string begin(reinterpret_cast<const char*>(&bytes), sizeof bytes);
    e.dir.write("hf/model.safetensors", begin + text + values + std::string(4, '\0'));
  };
  for (const char* number : {"9223372036854775807", "9223372036854775808", "1048576", "-1"}) {
    with(fmt::format("transformer.h.{}.ln_1.weight", number));
    EXPECT_ERROR(e.import(), ExitCode::bad_data,
                 fmt::format("h.{}.ln_1.weight has an impossible layer number", number));
  }
  with("transformer.h.9223372036854775807");  // the number of no layer
  e.import();
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
}

TEST(HfConfig, RefusesOptionsThatChangeTheModel) {
  const std::string gpt2 =
      R"({"model_type":"gpt2","vocab_size":5,"n_positions":8,"n_embd":8,"n_layer":1,"n_head":2)";
  const std::string mpt =
      R"({"model_type":"mpt","vocab_size":5,"max_seq_len":8,"d_model":8,"n_layers":1,"n_heads":2)";
  const auto expect_bad = [](const std::string& text, const char* part) {
    EXPECT_ERROR(model_from_hf_config(text, "c"), ExitCode::bad_data, part);
  };
  expect_bad(gpt2 + R"(,"tie_word_embeddings":"no"})", "tie_word_embeddings");
  expect_bad(gpt2 + R"(,"add_cross_attention":true})", "add_cross_attention");
  for (const char* extra : {R"("clip_qkv":6)", R"("softmax_scale":0.5)", R"("rope":true)",
                            R"("prefix_lm":true)", R"("attn_type":"multiquery_attention")"}) {
    expect_bad(mpt + R"(,"attn_config":{)" + extra + "}}", "not supported");
  }
  expect_bad(mpt + R"(,"logit_scale":"inv_sqrt_d_model"})", "logit_scale");
  const std::string plain =
      R"(,"logit_scale":null,"attn_config":{"clip_qkv":null,"softmax_scale":null,"rope":false,)"
      R"("prefix_lm":false,"attn_type":"multihead_attention"}})";
  EXPECT_EQ(model_from_hf_config(mpt + plain, "c").layers, 1);
  EXPECT_TRUE(model_from_hf_config(gpt2 + R"(,"tie_word_embeddings":null})", "c").tied_embedding);
}

}  // namespace
}  // namespace stretto::test
