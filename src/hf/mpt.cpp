// MPT with ALiBi: no biases, an MLP of 4 times the width.
#include "hf/family.h"

namespace stretto {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// A key of our own, which other readers ignore: MPT does not say how long its training sequences
// were, as GPT-2 does.
constexpr const char* kSeqLen = "stretto_seq_len";

constexpr HfName kNames[] = {
    {"wte", "transformer.wte.weight"},
    {"h.{}.ln1.weight", "transformer.blocks.{}.norm_1.weight"},
    {"h.{}.attn.qkv.weight", "transformer.blocks.{}.attn.Wqkv.weight"},
    {"h.{}.attn.proj.weight", "transformer.blocks.{}.attn.out_proj.weight"},
    {"h.{}.ln2.weight", "transformer.blocks.{}.norm_2.weight"},
    {"h.{}.mlp.up.weight", "transformer.blocks.{}.ffn.up_proj.weight"},
    {"h.{}.mlp.down.weight", "transformer.blocks.{}.ffn.down_proj.weight"},
    {"ln_f.weight", "transformer.norm_f.weight"},
    {"head", "lm_head.weight"},
};

constexpr const char* kArchitectures[] = {"MptForCausalLM", "MPTForCausalLM", "MptModel",
                                          "MPTModel"};

// `learned_pos_emb` is true in most files, but with ALiBi there are no learned positions.
// `embedding_fraction` scales a gradient, not a value.
constexpr const char* kHarmless[] = {
    "auto_map",    "emb_pdrop",      "embedding_fraction", "init_config", "init_device",
    "resid_pdrop", "tokenizer_name", "learned_pos_emb",    "verbose",     "use_pad_tok_in_ffn"};
constexpr const char* kHarmlessInAttention[] = {
    "attn_impl",      "attn_pdrop", "fused_qkv",  "rope_dail_config",
    "rope_hf_config", "rope_impl",  "rope_theta", "tie_word_embeddings"};

void write(const HfModel& model, ordered_json& config) {
  const ModelShape& m = model.shape;
  config["vocab_size"] = m.vocab;
  config["max_seq_len"] = m.positions;
  config["d_model"] = m.hidden;
  config["n_layers"] = m.layers;
  config["n_heads"] = m.heads;
  config["expansion_ratio"] = 4;  // transformers know no other
  config["no_bias"] = true;
  config["learned_pos_emb"] = false;
  config["layer_norm_epsilon"] = 1e-5;
  config["resid_pdrop"] = 0.0;
  config["emb_pdrop"] = 0.0;
  config["attn_config"] = {{"alibi", true},
                           {"alibi_bias_max", 8},
                           {"attn_pdrop", 0},  // an integer: transformers 5 refuses 0.0 here
                           {"attn_type", "multihead_attention"},
                           {"qk_ln", false}};
  if (model.trained != m.positions) config[kSeqLen] = model.trained;
}

void check_attention(HfSettings attention, int64_t heads) {
  if (!attention.flag("alibi", true)) attention.refuse("alibi");
  attention.require("alibi_bias_max", {8});
  attention.require("attn_type", {"multihead_attention"});
  attention.require("kv_n_heads", {nullptr, heads});
  attention.require("attn_uses_sequence_id", {false});
  attention.require("prefix_lm", {false});
  attention.require("rope", {false});
  attention.require("qk_ln", {false});
  attention.require("qk_gn", {false});
  attention.require("clip_qkv", {nullptr});
  attention.require("softmax_scale", {nullptr});
  attention.require("attn_logit_softcapping", {nullptr});
  attention.require("sliding_window_size", {-1});
  attention.harmless(kHarmlessInAttention);
  accept_common_keys(attention);
  attention.finish();
}

void check_mlp(HfSettings mlp) {
  mlp.require("ffn_type", {"mptmlp"});
  mlp.require("ffn_act_fn", {nullptr, {{"name", "gelu"}, {"approximate", "none"}}});
  mlp.require("ffn_hidden_size", {nullptr});
  mlp.require("fc_type", {"torch"});
  mlp.finish();
}

HfModel read(HfSettings& config) {
  ModelShape m;
  m.position_kind = Positions::alibi;
  m.mlp = Mlp::gelu;
  m.biases = Biases::all_or_none(false);
  m.vocab = config.size("vocab_size");
  m.positions = config.size("max_seq_len", 2048);
  m.hidden = config.size("d_model");
  m.layers = config.size("n_layers");
  m.heads = config.size("n_heads");
  m.ffn = config.size("expansion_ratio", 4) * m.hidden;
  check_attention(config.inside("attn_config"), m.heads);
  check_mlp(config.inside("ffn_config"));
  config.require("fc_type", {"torch"});
  config.require("no_bias", {true});
  config.require("norm_type", {"layernorm", "low_precision_layernorm"});
  config.require("norm_eps", {1e-5});
  config.require("layer_norm_epsilon", {1e-5});
  config.require("logit_scale", {nullptr});
  config.require("final_logit_softcapping", {nullptr});
  config.harmless(kHarmless);
  return {m, std::min(m.positions, config.size(kSeqLen, m.positions))};
}

}  // namespace

const HfFamily kMptFamily = {.type = "mpt",
                             .readable = "MPT models with ALiBi and without biases",
                             .architectures = kArchitectures,
                             .always_biased = false,
                             .prefix = "transformer.",
                             .names = kNames,
                             .unused = {},
                             .write = write,
                             .read = read};

}  // namespace stretto
