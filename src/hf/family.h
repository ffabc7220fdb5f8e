// What a Hugging Face model family is to export and import: config.json both ways, and a table of
// tensor names. Each family is one file beside this one, and one line of hf_families().
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "account/model_shape.h"
#include "account/parameters.h"
#include "base/dtype.h"
#include "config/rules.h"
#include "hf/settings.h"

namespace stretto {

// Rows of one of our parameters, where a tensor of theirs holds some of them only, or in another
// order.
struct HfRows {
  int64_t (*count)(const ModelShape&);
  int64_t (*ours)(const ModelShape&, int64_t row);  // our row for their row
};

struct HfName {
  const char* ours;         // {} stands for the layer
  const char* theirs;       // several tensors may share one of our parameters, each with its rows
  bool transposed = false;  // matrices only: stored (columns, rows)
  const HfRows* rows = nullptr;  // null: all rows, in our order
};

// What config.json says.
struct HfModel {
  ModelShape shape;
  int64_t trained = 0;  // the longest sequence of the training, at most shape.positions
};

struct HfFamily {
  const char* type;                            // model_type in config.json
  const char* readable;                        // what import reads, for messages
  std::span<const char* const> architectures;  // classes with the same tensors; ours first
  bool always_biased;                          // models without biases are stored with zeros
  const char* prefix;                          // of tensor names; some writers leave it out
  std::span<const HfName> names;
  std::span<const char* const> unused;  // tensors that are no weights, like stored masks

  // The keys of config.json that other families do not have. `write` says what the family can say
  // of a model, and `read` must account for all keys: one that it neither reads nor calls harmless
  // ends the import. Where `read` does not give back what `write` was told, a model cannot be
  // exported.
  void (*write)(const HfModel&, nlohmann::ordered_json& config);
  HfModel (*read)(HfSettings& config);
};

extern const HfFamily kGpt2Family, kMptFamily;
std::span<const HfFamily* const> hf_families();

// Keys that transformers write for every family, and that change no model. For objects inside
// config.json, too, because transformers 5 writes them there.
void accept_common_keys(HfSettings& config);

// The family that an export uses, and what is to be said about it: errors if no family holds the
// model, advice if readers compute something else. `config check` shows all as advice.
struct HfChoice {
  const HfFamily* family = nullptr;  // null only with errors
  std::vector<Finding> findings;
};
HfChoice choose_family(const ModelShape& model);  // of a valid configuration

// One tensor of their files: all of one of our parameters, or some of its rows.
struct HfTensor {
  ParameterSpec spec;  // ours
  std::string name;    // theirs: "transformer.h.3.attn.c_attn.weight"
  bool transposed = false;
  bool absent = false;  // our model has no such parameter: exported as zeros
  int64_t rows = 0;     // of ours that it holds
  std::function<int64_t(int64_t)> our_row = {};  // empty: the same row

  std::vector<int64_t> shape() const;  // in their file
  int64_t count() const { return rows * spec.columns; }
  bool same_layout() const { return !transposed && !our_row; }
};

std::vector<HfTensor> hf_tensors(const HfFamily& family, const ModelShape& model);
// Names of tensors that may be in the files of such a model, and that nobody needs.
std::vector<std::string> hf_unused(const HfFamily& family, int64_t layers);

// Copies values between the whole of our parameter and their tensor.
void to_stored(const HfTensor& tensor, const float* ours, float* theirs);
void from_stored(const HfTensor& tensor, const float* theirs, float* ours);

// Writing and reading config.json. `dtype`: that of the tensors. Reading throws bad_data for models
// that we cannot run; `name` is for messages.
std::string hf_config_json(const HfFamily& family, const HfModel& model, int64_t end_token,
                           DType dtype = DType::f32);
struct HfConfig {
  const HfFamily* family = nullptr;
  HfModel model;
};
HfConfig read_hf_config(std::string_view text, const std::string& name);

}  // namespace stretto
