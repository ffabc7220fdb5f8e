// config.json of Hugging Face models.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strict_json.h"
#include "hf/families.h"

namespace stretto {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Keys of our own, which other readers ignore. GPT-2 always stores biases, but some of our models
// have none. MPT does not say how long its training sequences were, as GPT-2 does.
constexpr const char* kNoBias = "stretto_no_bias";
constexpr const char* kSeqLen = "stretto_seq_len";

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw Error(ExitCode::bad_data, fmt::format("{}: {}", name, what),
              "GPT-2 models, and MPT models with ALiBi and without biases, can be read");
}

int64_t size_at(const json& config, const char* key, const std::string& name,
                int64_t fallback = 0) {
  if (config.contains(key) && config[key].is_number_integer()) {
    const int64_t value = config[key].get<int64_t>();
    if (value > 0 && value <= (int64_t{1} << 31)) return value;
  } else if (fallback > 0) {
    return fallback;
  }
  refuse(name, fmt::format("'{}' is not a size", key));
}

template <typename T>
void require(const json& config, const char* key, const T& wanted, const std::string& name) {
  if (config.contains(key) && config[key] != json(wanted)) {
    refuse(name, fmt::format("{} is {}, which is not supported", key, config[key].dump()));
  }
}

bool flag(const json& config, const char* key, bool fallback, const std::string& name) {
  if (!config.contains(key) || config[key].is_null()) return fallback;
  if (!config[key].is_boolean()) {
    refuse(name, fmt::format("{} is {}, neither true nor false", key, config[key].dump()));
  }
  return config[key].get<bool>();
}

ordered_json gpt2_config(const ModelShape& m, int64_t trained) {
  ordered_json config = {{"architectures", {"GPT2LMHeadModel"}},
                         {"model_type", "gpt2"},
                         {"vocab_size", m.vocab},
                         {"n_positions", m.positions},
                         {"n_ctx", trained},
                         {"n_embd", m.hidden},
                         {"n_layer", m.layers},
                         {"n_head", m.heads},
                         {"n_inner", m.ffn},
                         {"activation_function", m.mlp == Mlp::gelu ? "gelu" : "gelu_new"},
                         {"layer_norm_epsilon", 1e-5},
                         {"resid_pdrop", 0.0},
                         {"embd_pdrop", 0.0},
                         {"attn_pdrop", 0.0},
                         {"initializer_range", 0.02}};
  if (!m.biases.mlp) config[kNoBias] = true;
  return config;
}

ordered_json mpt_config(const ModelShape& m, int64_t trained) {
  ordered_json config = {{"architectures", {"MptForCausalLM"}},
                         {"model_type", "mpt"},
                         {"vocab_size", m.vocab},
                         {"max_seq_len", m.positions},
                         {"d_model", m.hidden},
                         {"n_layers", m.layers},
                         {"n_heads", m.heads},
                         {"expansion_ratio", m.ffn / m.hidden},
                         {"no_bias", true},
                         {"learned_pos_emb", false},
                         {"layer_norm_epsilon", 1e-5},
                         {"resid_pdrop", 0.0},
                         {"emb_pdrop", 0.0},
                         {"attn_config",
                          {{"alibi", true},
                           {"alibi_bias_max", 8},
                           {"attn_pdrop", 0},  // an integer: transformers 5 refuses 0.0 here
                           {"attn_type", "multihead_attention"},
                           {"qk_ln", false}}}};
  if (trained != m.positions) config[kSeqLen] = trained;
  return config;
}

ModelShape from_gpt2(const json& config, const std::string& name) {
  require(config, "layer_norm_epsilon", 1e-5, name);
  require(config, "scale_attn_weights", true, name);
  require(config, "scale_attn_by_inverse_layer_idx", false, name);
  require(config, "add_cross_attention", false, name);
  ModelShape m;
  const bool exact = config.value("activation_function", json()) == "gelu";
  if (!exact) require(config, "activation_function", "gelu_new", name);
  m.mlp = exact ? Mlp::gelu : Mlp::gelu_tanh;
  m.vocab = size_at(config, "vocab_size", name);
  m.positions = size_at(config, "n_positions", name);
  m.hidden = size_at(config, "n_embd", name);
  m.layers = size_at(config, "n_layer", name);
  m.heads = size_at(config, "n_head", name);
  const bool inner = config.contains("n_inner") && !config["n_inner"].is_null();
  m.ffn = inner ? size_at(config, "n_inner", name) : 4 * m.hidden;
  m.biases = Biases::all_or_none(!flag(config, kNoBias, false, name));
  return m;
}

ModelShape from_mpt(const json& config, const std::string& name) {
  const json attention = config.value("attn_config", json::object());
  if (!attention.is_object() || !flag(attention, "alibi", true, name))
    refuse(name, "MPT without ALiBi");
  require(attention, "alibi_bias_max", 8, name);
  require(attention, "qk_ln", false, name);
  require(attention, "attn_type", "multihead_attention", name);
  require(attention, "rope", false, name);
  require(attention, "prefix_lm", false, name);
  require(attention, "clip_qkv", nullptr, name);
  require(attention, "softmax_scale", nullptr, name);
  require(config, "logit_scale", nullptr, name);
  require(config, "no_bias", true, name);
  require(config, "layer_norm_epsilon", 1e-5, name);
  ModelShape m;
  m.position_kind = Positions::alibi;
  m.mlp = Mlp::gelu;
  m.biases = Biases::all_or_none(false);
  m.vocab = size_at(config, "vocab_size", name);
  m.positions = size_at(config, "max_seq_len", name, 2048);
  m.hidden = size_at(config, "d_model", name);
  m.layers = size_at(config, "n_layers", name);
  m.heads = size_at(config, "n_heads", name);
  m.ffn = size_at(config, "expansion_ratio", name, 4) * m.hidden;
  return m;
}

}  // namespace

std::string hf_config_json(const ModelShape& model, int64_t trained, int64_t end_token,
                           DType dtype) {
  const HfFamily family = family_of(model);
  ordered_json config =
      family == HfFamily::gpt2 ? gpt2_config(model, trained) : mpt_config(model, trained);
  config["tie_word_embeddings"] = model.tied_embedding;
  config["torch_dtype"] = dtype == DType::bf16  ? "bfloat16"
                          : dtype == DType::f16 ? "float16"
                                                : "float32";
  config["use_cache"] = true;
  // Written even if there is none, because readers would assume GPT-2's.
  ordered_json end = nullptr;
  if (end_token >= 0) end = end_token;
  config["bos_token_id"] = config["eos_token_id"] = end;
  return config.dump(2) + "\n";
}

ModelShape model_from_hf_config(std::string_view text, const std::string& name) {
  const json config = parse_json(text, name);
  if (!config.is_object() || !config.contains("model_type") || !config["model_type"].is_string()) {
    refuse(name, "no model_type");
  }
  const std::string type = config["model_type"].get<std::string>();
  if (type != "gpt2" && type != "mpt") refuse(name, fmt::format("model_type '{}'", type));
  ModelShape m = type == "gpt2" ? from_gpt2(config, name) : from_mpt(config, name);
  m.name = type;
  m.tied_embedding = flag(config, "tie_word_embeddings", true, name);
  if (m.hidden % m.heads != 0) refuse(name, "the heads do not divide the width");
  return m;
}

int64_t trained_length(std::string_view text, const ModelShape& model) {
  const json config = parse_json(text, "config.json");
  const bool gpt2 = family_of(model) == HfFamily::gpt2;
  const json length = config.value(gpt2 ? "n_ctx" : kSeqLen, json());
  const bool said = length.is_number_unsigned() && length >= 1 && length <= model.positions;
  return said ? length.get<int64_t>() : model.positions;
}

}  // namespace stretto
