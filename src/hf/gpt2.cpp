// GPT-2: learned positions, biases everywhere.
#include <array>

#include "hf/family.h"

namespace stretto {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// A key of our own, which other readers ignore: GPT-2 always stores biases, but some of our models
// have none.
constexpr const char* kNoBias = "stretto_no_bias";

// GPT-2 keeps its linear layers as (in, out).
constexpr HfName kNames[] = {
    {"wte", "transformer.wte.weight"},
    {"wpe", "transformer.wpe.weight"},
    {"h.{}.ln1.weight", "transformer.h.{}.ln_1.weight"},
    {"h.{}.ln1.bias", "transformer.h.{}.ln_1.bias"},
    {"h.{}.attn.qkv.weight", "transformer.h.{}.attn.c_attn.weight", true},
    {"h.{}.attn.qkv.bias", "transformer.h.{}.attn.c_attn.bias"},
    {"h.{}.attn.proj.weight", "transformer.h.{}.attn.c_proj.weight", true},
    {"h.{}.attn.proj.bias", "transformer.h.{}.attn.c_proj.bias"},
    {"h.{}.ln2.weight", "transformer.h.{}.ln_2.weight"},
    {"h.{}.ln2.bias", "transformer.h.{}.ln_2.bias"},
    {"h.{}.mlp.up.weight", "transformer.h.{}.mlp.c_fc.weight", true},
    {"h.{}.mlp.up.bias", "transformer.h.{}.mlp.c_fc.bias"},
    {"h.{}.mlp.down.weight", "transformer.h.{}.mlp.c_proj.weight", true},
    {"h.{}.mlp.down.bias", "transformer.h.{}.mlp.c_proj.bias"},
    {"ln_f.weight", "transformer.ln_f.weight"},
    {"ln_f.bias", "transformer.ln_f.bias"},
    {"head", "lm_head.weight"},
};

// The causal mask, which old versions stored in every layer.
constexpr const char* kUnused[] = {"transformer.h.{}.attn.bias",
                                   "transformer.h.{}.attn.masked_bias"};

constexpr const char* kArchitectures[] = {"GPT2LMHeadModel", "GPT2Model"};

constexpr const char* kHarmless[] = {"attn_pdrop", "embd_pdrop", "resid_pdrop",
                                     "reorder_and_upcast_attn",
                                     // the head of a classifier
                                     "summary_activation", "summary_first_dropout",
                                     "summary_proj_to_labels", "summary_type", "summary_use_proj",
                                     // of the published models, read by nobody
                                     "output_past", "predict_special_tokens", "_num_labels"};

// All of these compute the same function.
bool is_tanh(const json& activation) {
  constexpr std::array kTanh = {"gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast",
                                "gelu_accurate"};
  return activation.is_null() || std::find(kTanh.begin(), kTanh.end(), activation) != kTanh.end();
}

void write(const HfModel& model, ordered_json& config) {
  const ModelShape& m = model.shape;
  config["vocab_size"] = m.vocab;
  config["n_positions"] = m.positions;
  config["n_ctx"] = model.trained;
  config["n_embd"] = m.hidden;
  config["n_layer"] = m.layers;
  config["n_head"] = m.heads;
  config["n_inner"] = m.ffn;
  config["activation_function"] = m.mlp == Mlp::gelu ? "gelu" : "gelu_new";
  config["layer_norm_epsilon"] = 1e-5;
  config["resid_pdrop"] = 0.0;
  config["embd_pdrop"] = 0.0;
  config["attn_pdrop"] = 0.0;
  config["initializer_range"] = 0.02;
  if (!m.biases.mlp) config[kNoBias] = true;
}

HfModel read(HfSettings& config) {
  config.require("layer_norm_epsilon", {1e-5});
  config.require("scale_attn_weights", {true});
  config.require("scale_attn_by_inverse_layer_idx", {false});
  config.harmless(kHarmless);
  ModelShape m;
  const json activation = config.value("activation_function");
  const bool exact = activation == "gelu" || activation == "gelu_python";
  if (!exact && !is_tanh(activation)) config.refuse("activation_function");
  m.mlp = exact ? Mlp::gelu : Mlp::gelu_tanh;
  m.vocab = config.size("vocab_size");
  m.positions = config.size("n_positions");
  m.hidden = config.size("n_embd");
  m.layers = config.size("n_layer");
  m.heads = config.size("n_head");
  m.ffn = config.size("n_inner", 4 * m.hidden);
  m.biases = Biases::all_or_none(!config.flag(kNoBias, false));
  const json length = config.value("n_ctx");
  const bool said = length.is_number_unsigned() && length >= 1 && length <= m.positions;
  return {m, said ? length.get<int64_t>() : m.positions};
}

}  // namespace

const HfFamily kGpt2Family = {.type = "gpt2",
                              .readable = "GPT-2 models",
                              .architectures = kArchitectures,
                              .always_biased = true,
                              .prefix = "transformer.",
                              .names = kNames,
                              .unused = kUnused,
                              .write = write,
                              .read = read};

}  // namespace stretto
