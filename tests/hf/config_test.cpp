// config.json: every key is read, known to be harmless, or named in a refusal.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hf/family.h"
#include "hf/settings.h"
#include "support/expect_error.h"

namespace stretto::test {
namespace {

using nlohmann::json;

json minimal(const std::string& type) {
  if (type == "gpt2") {
    return {{"model_type", "gpt2"}, {"vocab_size", 5}, {"n_positions", 8},
            {"n_embd", 8},          {"n_layer", 1},    {"n_head", 2}};
  }
  return {{"model_type", "mpt"}, {"vocab_size", 5}, {"max_seq_len", 8},
          {"d_model", 8},        {"n_layers", 1},   {"n_heads", 2}};
}

// `key` as a JSON pointer.
HfModel read_with(const std::string& type, const std::string& key, const json& value) {
  json config = minimal(type);
  config[json::json_pointer(key)] = value;
  return read_hf_config(config.dump(), "c").model;
}

struct Setting {
  const char *type, *key;
  json value;
};

TEST(HfConfig, ASettingThatChangesTheModelIsNamedWithItsValue) {
  const Setting settings[] = {{"gpt2", "/activation_function", "relu"},
                              {"gpt2", "/activation_function", "gelu_10"},
                              {"gpt2", "/layer_norm_epsilon", 1e-6},
                              {"gpt2", "/n_inner", -1},
                              {"gpt2", "/n_inner", 99999999999999},
                              {"gpt2", "/n_head", "2"},
                              {"gpt2", "/scale_attn_weights", false},
                              {"gpt2", "/scale_attn_by_inverse_layer_idx", true},
                              {"gpt2", "/add_cross_attention", true},
                              {"gpt2", "/tie_word_embeddings", "no"},
                              {"gpt2", "/pruned_heads", {{"0", {1}}}},
                              {"gpt2", "/architectures", {"GPT2WithAdapters"}},
                              {"gpt2", "/quantization_config", {{"bits", 4}}},
                              {"gpt2", "/auto_map", {{"AutoModel", "other.py"}}},
                              {"gpt2", "/norm_type", "rmsnorm"},
                              {"mpt", "/norm_type", "rmsnorm"},
                              {"mpt", "/norm_eps", 1e-6},
                              {"mpt", "/layer_norm_epsilon", 1e-6},
                              {"mpt", "/no_bias", false},
                              {"mpt", "/logit_scale", "inv_sqrt_d_model"},
                              {"mpt", "/final_logit_softcapping", 30.0},
                              {"mpt", "/expansion_ratio", 2.5},
                              {"mpt", "/max_seq_len", 0},
                              {"mpt", "/stretto_seq_len", 0},
                              {"mpt", "/fc_type", "te"},
                              {"mpt", "/block_overrides", {{"order", json::array()}}},
                              {"mpt", "/ffn_type", "mptglu"},
                              {"mpt", "/ffn_config/ffn_type", "mptglu"},
                              {"mpt", "/ffn_config/ffn_act_fn", {{"name", "relu"}}},
                              {"mpt", "/ffn_config/ffn_hidden_size", 24},
                              {"mpt", "/ffn_config/moe_num_experts", 8},
                              {"mpt", "/attn_config", "flash"},
                              {"mpt", "/attn_config/alibi", false},
                              {"mpt", "/attn_config/alibi_bias_max", 16},
                              {"mpt", "/attn_config/attn_type", "multiquery_attention"},
                              {"mpt", "/attn_config/kv_n_heads", 1},
                              {"mpt", "/attn_config/attn_uses_sequence_id", true},
                              {"mpt", "/attn_config/prefix_lm", true},
                              {"mpt", "/attn_config/rope", true},
                              {"mpt", "/attn_config/qk_ln", true},
                              {"mpt", "/attn_config/qk_gn", true},
                              {"mpt", "/attn_config/clip_qkv", 6},
                              {"mpt", "/attn_config/softmax_scale", 0.5},
                              {"mpt", "/attn_config/sliding_window_size", 128},
                              {"mpt", "/attn_config/attn_logit_softcapping", 50.0},
                              {"mpt", "/attn_config/reuse_kv_layer_idx", -1}};
  for (const Setting& s : settings) {
    std::string name = std::string(s.key).substr(1);
    std::replace(name.begin(), name.end(), '/', '.');
    EXPECT_ERROR(read_with(s.type, s.key, s.value), ExitCode::bad_data,
                 fmt::format("c: {} is {}", name, s.value.dump()));
  }
}

TEST(HfConfig, WhatChangesNoModelIsAccepted) {
  for (const char* type : {"gpt2", "mpt"}) {
    const HfModel plain = read_hf_config(minimal(type).dump(), "c").model;
    const auto expect_same = [&](const std::string& key, const json& value) {
      EXPECT_EQ(read_with(type, key, value).shape, plain.shape) << type << key;
    };
    expect_same("/initializer_range", 0.5);
    expect_same("/resid_pdrop", 0.3);
    expect_same("/use_cache", false);
    expect_same("/transformers_version", "9.9");
    expect_same("/torch_dtype", "bfloat16");
    expect_same("/dtype", "bfloat16");
    expect_same("/eos_token_id", 7);
    expect_same("/id2label", {{"0", "x"}});
    expect_same("/architectures", nullptr);
    expect_same("/tie_word_embeddings", nullptr);
  }
  // Of published models.
  for (const Setting& s : {Setting{"gpt2", "/task_specific_params", {{"a", 1}}},
                           {"gpt2", "/output_past", true},
                           {"gpt2", "/predict_special_tokens", true},
                           {"gpt2", "/architectures", {"GPT2LMHeadModel"}},
                           {"gpt2", "/n_inner", nullptr},
                           {"mpt", "/architectures", {"MPTForCausalLM"}},
                           {"mpt", "/auto_map", {{"AutoConfig", "configuration_mpt.MPTConfig"}}},
                           {"mpt", "/init_config", {{"name", "kaiming_normal_"}}},
                           {"mpt", "/tokenizer_name", "x"},
                           {"mpt", "/learned_pos_emb", true},
                           {"mpt", "/ffn_config", {{"ffn_type", "mptmlp"}, {"fc_type", "torch"}}},
                           {"mpt", "/attn_config/attn_impl", "flash"},
                           {"mpt", "/attn_config/sliding_window_size", -1},
                           {"mpt", "/attn_config/kv_n_heads", 2}}) {
    EXPECT_EQ(read_with(s.type, s.key, s.value).shape.layers, 1) << s.key;
  }
}

TEST(HfConfig, ManyUnknownKeysAreCounted) {
  json config = minimal("gpt2");
  for (int i = 0; i < 8; ++i) config[fmt::format("new_{}", i)] = i;
  EXPECT_ERROR(read_hf_config(config.dump(), "c"), ExitCode::bad_data, "new_4 is 4 and 3 more");
  config = minimal("gpt2");
  config["new"] = std::string(1000, 'x');
  EXPECT_ERROR(read_hf_config(config.dump(), "c"), ExitCode::bad_data, "xxx..., and import cannot");
}

TEST(HfConfig, NamesOfActivationsStandForTwoFunctions) {
  EXPECT_EQ(read_hf_config(minimal("gpt2").dump(), "c").model.shape.mlp, Mlp::gelu_tanh);
  for (const char* name : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate"}) {
    EXPECT_EQ(read_with("gpt2", "/activation_function", name).shape.mlp, Mlp::gelu_tanh) << name;
  }
  for (const char* name : {"gelu", "gelu_python"}) {
    EXPECT_EQ(read_with("gpt2", "/activation_function", name).shape.mlp, Mlp::gelu) << name;
  }
}

TEST(HfConfig, RefusesOtherFamilies) {
  EXPECT_ERROR(read_hf_config(R"({"model_type":"llama"})", "c"), ExitCode::bad_data, "llama");
  for (const char* none : {"[]", "{}", R"({"model_type":2})"}) {
    EXPECT_ERROR(read_hf_config(none, "c"), ExitCode::bad_data, "c: no model_type");
  }
  EXPECT_ERROR(read_with("gpt2", "/n_head", 3), ExitCode::bad_data, "do not divide");
  json unsized = minimal("mpt");
  unsized.erase("d_model");
  EXPECT_ERROR(read_hf_config(unsized.dump(), "c"), ExitCode::bad_data, "d_model is missing");
}

const ModelShape kLearned{"m", 1, 8, 2, 256, 8, 32};
const ModelShape kAlibi{.name = "m",
                        .layers = 1,
                        .hidden = 8,
                        .heads = 2,
                        .vocab = 256,
                        .positions = 8,
                        .ffn = 32,
                        .position_kind = Positions::alibi,
                        .mlp = Mlp::gelu,
                        .biases = Biases::all_or_none(false)};

TEST(HfConfig, WhatIsWrittenIsRead) {
  for (const auto& [family, shape] : {std::pair(&kGpt2Family, kLearned), {&kMptFamily, kAlibi}}) {
    for (const int64_t trained : {5, 8}) {
      const HfConfig back = read_hf_config(hf_config_json(*family, {shape, trained}, -1), "c");
      EXPECT_EQ(back.family, family);
      EXPECT_EQ(back.model.trained, trained);
      ModelShape wanted = shape;
      wanted.name = family->type;
      EXPECT_EQ(back.model.shape, wanted);
    }
  }
}

TEST(HfConfig, ALengthThatCannotBeIsThatOfThePositions) {
  EXPECT_EQ(read_hf_config(minimal("gpt2").dump(), "c").model.trained, 8);
  for (const json& length : {json(0), json(9), json("5"), json(nullptr)}) {
    EXPECT_EQ(read_with("gpt2", "/n_ctx", length).trained, 8) << length;
  }
  EXPECT_EQ(read_with("gpt2", "/n_ctx", 5).trained, 5);
  EXPECT_EQ(read_with("mpt", "/stretto_seq_len", 9).trained, 8);
}

TEST(HfConfig, SaysWhichTokenEndsATextOrThatNoneDoes) {
  const auto written = [](int64_t end) { return hf_config_json(kGpt2Family, {kLearned, 8}, end); };
  EXPECT_NE(written(-1).find("\"eos_token_id\": null"), std::string::npos);
  EXPECT_NE(written(5).find("\"eos_token_id\": 5"), std::string::npos);
}

}  // namespace
}  // namespace stretto::test
