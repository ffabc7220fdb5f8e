#include "hf/families.h"

#include <map>

#include "base/error.h"

namespace stretto {
namespace {

struct NameRow {
  const char* ours;  // {} stands for the layer
  const char* theirs;
  bool transposed;  // matrices only
};

// GPT-2 keeps its linear layers as (in, out).
constexpr NameRow kGpt2[] = {
    {"wte", "transformer.wte.weight", false},
    {"wpe", "transformer.wpe.weight", false},
    {"h.{}.ln1.weight", "transformer.h.{}.ln_1.weight", false},
    {"h.{}.ln1.bias", "transformer.h.{}.ln_1.bias", false},
    {"h.{}.attn.qkv.weight", "transformer.h.{}.attn.c_attn.weight", true},
    {"h.{}.attn.qkv.bias", "transformer.h.{}.attn.c_attn.bias", false},
    {"h.{}.attn.proj.weight", "transformer.h.{}.attn.c_proj.weight", true},
    {"h.{}.attn.proj.bias", "transformer.h.{}.attn.c_proj.bias", false},
    {"h.{}.ln2.weight", "transformer.h.{}.ln_2.weight", false},
    {"h.{}.ln2.bias", "transformer.h.{}.ln_2.bias", false},
    {"h.{}.mlp.up.weight", "transformer.h.{}.mlp.c_fc.weight", true},
    {"h.{}.mlp.up.bias", "transformer.h.{}.mlp.c_fc.bias", false},
    {"h.{}.mlp.down.weight", "transformer.h.{}.mlp.c_proj.weight", true},
    {"h.{}.mlp.down.bias", "transformer.h.{}.mlp.c_proj.bias", false},
    {"ln_f.weight", "transformer.ln_f.weight", false},
    {"ln_f.bias", "transformer.ln_f.bias", false},
    {"head", "lm_head.weight", false},
};

constexpr NameRow kMpt[] = {
    {"wte", "transformer.wte.weight", false},
    {"h.{}.ln1.weight", "transformer.blocks.{}.norm_1.weight", false},
    {"h.{}.attn.qkv.weight", "transformer.blocks.{}.attn.Wqkv.weight", false},
    {"h.{}.attn.proj.weight", "transformer.blocks.{}.attn.out_proj.weight", false},
    {"h.{}.ln2.weight", "transformer.blocks.{}.norm_2.weight", false},
    {"h.{}.mlp.up.weight", "transformer.blocks.{}.ffn.up_proj.weight", false},
    {"h.{}.mlp.down.weight", "transformer.blocks.{}.ffn.down_proj.weight", false},
    {"ln_f.weight", "transformer.norm_f.weight", false},
    {"head", "lm_head.weight", false},
};

std::string with_layer(const char* pattern, int64_t layer) {
  std::string text = pattern;
  const size_t at = text.find("{}");
  if (at != std::string::npos) text.replace(at, 2, fmt::format("{}", layer));
  return text;
}

bool per_layer(const NameRow& row) {
  return std::string_view(row.ours).find("{}") != std::string_view::npos;
}

template <size_t N>
std::vector<HfTensor> mapped(const NameRow (&rows)[N], const ModelShape& model, bool biases) {
  ModelShape full = model;
  full.biases = Biases::all_or_none(biases);  // what the family stores
  std::map<std::string, ParameterSpec> ours;
  for (const ParameterSpec& spec : parameter_list(model)) ours[spec.name] = spec;
  std::map<std::string, ParameterSpec> stored;
  for (const ParameterSpec& spec : parameter_list(full)) stored[spec.name] = spec;

  std::vector<HfTensor> tensors;
  for (const NameRow& row : rows) {
    for (int64_t layer = 0; layer < (per_layer(row) ? model.layers : 1); ++layer) {
      const std::string name = with_layer(row.ours, layer);
      const auto found = stored.find(name);
      if (found == stored.end()) continue;  // no head of its own
      tensors.push_back(
          {found->second, with_layer(row.theirs, layer), row.transposed, ours.count(name) == 0});
    }
  }
  return tensors;
}

}  // namespace

const char* name_of(HfFamily family) { return family == HfFamily::gpt2 ? "gpt2" : "mpt"; }

std::vector<int64_t> HfTensor::shape() const {
  if (spec.vector()) return {spec.rows};
  if (transposed) return {spec.columns, spec.rows};
  return {spec.rows, spec.columns};
}

HfFamily family_of(const ModelShape& model) {
  if (model.position_kind == Positions::learned) return HfFamily::gpt2;
  if (model.biases.mlp || model.ffn != 4 * model.hidden) {
    throw Error(ExitCode::bad_config,
                fmt::format("no Hugging Face family supports an ALiBi model with {}",
                            model.biases.mlp ? "biases" : "an MLP that is not 4 times the width"),
                "MPT models have bias: false and ffn = 4 * hidden");
  }
  return HfFamily::mpt;
}

std::vector<HfTensor> hf_tensors(HfFamily family, const ModelShape& model) {
  return family == HfFamily::gpt2 ? mapped(kGpt2, model, true) : mapped(kMpt, model, false);
}

}  // namespace stretto
