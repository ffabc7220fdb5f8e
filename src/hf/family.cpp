#include "hf/family.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strict_json.h"
#include "hf/settings.h"

namespace stretto {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// What transformers write into the configuration of any family. The first two rows are those of
// models, the others those of programs: how to load, to train, to label and to generate.
constexpr const char* kCommon[] = {"model_type",
                                   "architectures",
                                   "initializer_range",
                                   "use_cache",
                                   "torch_dtype",
                                   "dtype",
                                   "bos_token_id",
                                   "eos_token_id",
                                   "pad_token_id",
                                   "sep_token_id",
                                   "decoder_start_token_id",
                                   "transformers_version",
                                   "_name_or_path",
                                   "_commit_hash",
                                   "attn_implementation",
                                   "_attn_implementation",
                                   "_attn_implementation_internal",
                                   "_attn_implementation_autoset",
                                   "chunk_size_feed_forward",
                                   "cross_attention_hidden_size",
                                   "finetuning_task",
                                   "gradient_checkpointing",
                                   "id2label",
                                   "is_decoder",
                                   "label2id",
                                   "num_labels",
                                   "output_attentions",
                                   "output_hidden_states",
                                   "output_scores",
                                   "prefix",
                                   "problem_type",
                                   "return_dict",
                                   "return_dict_in_generate",
                                   "task_specific_params",
                                   "tf_legacy_loss",
                                   "tie_encoder_decoder",
                                   "tokenizer_class",
                                   "torchscript",
                                   "use_bfloat16",
                                   "bad_words_ids",
                                   "begin_suppress_tokens",
                                   "diversity_penalty",
                                   "do_sample",
                                   "early_stopping",
                                   "encoder_no_repeat_ngram_size",
                                   "exponential_decay_length_penalty",
                                   "forced_bos_token_id",
                                   "forced_eos_token_id",
                                   "length_penalty",
                                   "max_length",
                                   "min_length",
                                   "no_repeat_ngram_size",
                                   "num_beam_groups",
                                   "num_beams",
                                   "num_return_sequences",
                                   "remove_invalid_values",
                                   "repetition_penalty",
                                   "suppress_tokens",
                                   "temperature",
                                   "top_k",
                                   "top_p",
                                   "typical_p"};

std::string with_layer(const char* pattern, int64_t layer) {
  std::string text = pattern;
  const size_t at = text.find("{}");
  if (at != std::string::npos) text.replace(at, 2, fmt::format("{}", layer));
  return text;
}

bool per_layer(const HfName& name) {
  return std::string_view(name.ours).find("{}") != std::string_view::npos;
}

std::map<std::string, ParameterSpec> parameters_by_name(const ModelShape& model) {
  std::map<std::string, ParameterSpec> specs;
  for (const ParameterSpec& spec : parameter_list(model)) specs[spec.name] = spec;
  return specs;
}

// Calls move(ours, theirs) with the two places of each value.
template <typename Move>
void for_each_value(const HfTensor& tensor, const Move& move) {
  const int64_t columns = tensor.spec.columns;
  for (int64_t row = 0; row < tensor.rows; ++row) {
    const int64_t ours = columns * (tensor.our_row ? tensor.our_row(row) : row);
    for (int64_t c = 0; c < columns; ++c) {
      move(ours + c, tensor.transposed ? c * tensor.rows + row : row * columns + c);
    }
  }
}

std::string readable_models() {
  std::vector<const char*> names;
  for (const HfFamily* family : hf_families()) names.push_back(family->readable);
  return fmt::format("{}", fmt::join(names, "; "));
}

const HfFamily& family_called(const std::string& type, const HfSettings& config) {
  const auto families = hf_families();
  const auto found = std::ranges::find(families, type, &HfFamily::type);
  if (found == families.end()) config.refuse_model(fmt::format("model_type '{}'", type));
  return **found;
}

void require_architecture(HfSettings& config, const HfFamily& family) {
  const json named = config.value("architectures");
  if (named.is_null()) return;
  const auto known = [&](const json& name) {
    return std::ranges::find(family.architectures, name) != family.architectures.end();
  };
  if (!named.is_array() || !std::ranges::all_of(named, known)) config.refuse("architectures");
}

}  // namespace

std::span<const HfFamily* const> hf_families() {
  static constexpr const HfFamily* kAll[] = {&kGpt2Family, &kMptFamily};
  return kAll;
}

void accept_common_keys(HfSettings& config) {
  config.require("add_cross_attention", {false});
  config.require("is_encoder_decoder", {false});
  config.require("pruned_heads", {nullptr, json::object()});
  config.harmless(kCommon);
}

std::vector<int64_t> HfTensor::shape() const {
  if (spec.vector()) return {rows};
  if (transposed) return {spec.columns, rows};
  return {rows, spec.columns};
}

std::vector<HfTensor> hf_tensors(const HfFamily& family, const ModelShape& model) {
  ModelShape stored = model;
  if (family.always_biased) stored.biases = Biases::all_or_none(true);
  const auto ours = parameters_by_name(model), theirs = parameters_by_name(stored);
  std::vector<HfTensor> tensors;
  for (const HfName& name : family.names) {
    for (int64_t layer = 0; layer < (per_layer(name) ? model.layers : 1); ++layer) {
      const auto found = theirs.find(with_layer(name.ours, layer));
      if (found == theirs.end()) continue;  // no head of its own
      HfTensor tensor{found->second, with_layer(name.theirs, layer), name.transposed,
                      ours.count(found->first) == 0, found->second.rows};
      if (const HfRows* rows = name.rows; rows != nullptr) {
        tensor.rows = rows->count(model);
        tensor.our_row = [rows, model](int64_t row) { return rows->ours(model, row); };
      }
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

std::vector<std::string> hf_unused(const HfFamily& family, int64_t layers) {
  std::vector<std::string> names;
  for (const char* pattern : family.unused) {
    for (int64_t layer = 0; layer < layers; ++layer) names.push_back(with_layer(pattern, layer));
  }
  return names;
}

void to_stored(const HfTensor& tensor, const float* ours, float* theirs) {
  for_each_value(tensor, [&](int64_t here, int64_t there) { theirs[there] = ours[here]; });
}

void from_stored(const HfTensor& tensor, const float* theirs, float* ours) {
  for_each_value(tensor, [&](int64_t here, int64_t there) { ours[here] = theirs[there]; });
}

std::string hf_config_json(const HfFamily& family, const HfModel& model, int64_t end_token,
                           DType dtype) {
  ordered_json config = {{"architectures", {family.architectures.front()}},
                         {"model_type", family.type}};
  family.write(model, config);
  config["tie_word_embeddings"] = model.shape.tied_embedding;
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

HfConfig read_hf_config(std::string_view text, const std::string& name) {
  json document = parse_json(text, name);
  const bool object = document.is_object();
  HfSettings config(object ? std::move(document) : json::object(), name, readable_models());
  const json type = config.value("model_type");
  if (!type.is_string()) config.refuse_model("no model_type");
  const HfFamily& family = family_called(type.get<std::string>(), config);
  require_architecture(config, family);
  accept_common_keys(config);
  HfConfig result{&family, family.read(config)};
  ModelShape& shape = result.model.shape;
  shape.name = family.type;
  shape.tied_embedding = config.flag("tie_word_embeddings", true);
  config.finish();
  if (shape.hidden % shape.heads != 0) config.refuse_model("the heads do not divide the width");
  return result;
}

}  // namespace stretto
