// Which family an export uses, and what it would lose: what its config.json does not give back.
#include <fmt/format.h>

#include <algorithm>

#include "config/schema.h"
#include "hf/family.h"

namespace stretto {
namespace {

// The model as readers of the family's files will see it.
ModelShape as_read(const HfFamily& family, const ModelShape& model) {
  ModelShape shape =
      read_hf_config(hf_config_json(family, {model, model.positions}, -1), family.type).model.shape;
  shape.name = model.name;
  return shape;
}

std::vector<Finding> differences(const HfFamily& family, const ModelShape& model,
                                 ModelShape theirs) {
  std::vector<Finding> findings;
  Config config;
  config.model = theirs;
  const auto shown = [&](const char* key) { return render_key(key, config); };
  const std::string format = fmt::format("{}, the format for model.position_kind: {}", family.type,
                                         shown("model.position_kind"));
  const auto prevents = [&](const char* key) {
    findings.push_back({Severity::error, "export", key,
                        fmt::format("prevents exports: in {}, it is {}", format, shown(key)),
                        fmt::format("train with {}={}", key, shown(key))});
  };
  if (theirs.biases != model.biases) prevents("model.bias");
  if (theirs.ffn != model.ffn) prevents("model.ffn");
  const bool both_gelu = gelu_of(model.mlp) != Gelu::none && gelu_of(theirs.mlp) != Gelu::none;
  if (theirs.mlp != model.mlp && both_gelu) {
    findings.push_back({Severity::advice, "export", "model.gelu",
                        fmt::format("is {} in {}: logits of an export will differ in the fourth "
                                    "digit",
                                    shown("model.gelu"), format),
                        fmt::format("train with model.gelu={}", shown("model.gelu"))});
  }
  theirs.biases = model.biases;
  theirs.ffn = model.ffn;
  if (both_gelu) theirs.mlp = model.mlp;
  if (theirs != model) {
    findings.push_back({Severity::error, "export", "model.name",
                        fmt::format("prevents exports: {}, cannot describe this model", format),
                        "train a model with the parts of that family"});
  }
  return findings;
}

}  // namespace

HfChoice choose_family(const ModelShape& model) {
  std::vector<HfChoice> choices;
  for (const HfFamily* family : hf_families()) {
    const ModelShape theirs = as_read(*family, model);
    if (theirs.position_kind != model.position_kind) continue;
    choices.push_back({family, differences(*family, model, theirs)});
  }
  if (choices.empty()) {
    return {nullptr,
            {{Severity::error, "export", "model.position_kind",
              "prevents exports: no family that can be exported has it",
              "train with model.position_kind=learned or alibi"}}};
  }
  return *std::ranges::min_element(choices, {}, [](const HfChoice& choice) {
    return std::ranges::count(choice.findings, Severity::error, &Finding::severity);
  });
}

}  // namespace stretto
