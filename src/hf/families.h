// How Hugging Face model families name and store our parameters: one table per family, used by
// export and import.
#pragma once

#include <string>
#include <vector>

#include "account/model_shape.h"
#include "account/parameters.h"
#include "base/dtype.h"

namespace stretto {

enum class HfFamily { gpt2, mpt };
const char* name_of(HfFamily family);  // the model_type of config.json

// One of our parameters and its counterpart. If a family demands a tensor that our model does not
// have (`absent`), it is exported as zeros and `spec` names no parameter.
struct HfTensor {
  ParameterSpec spec;
  std::string name;         // "transformer.h.3.attn.c_attn.weight"
  bool transposed = false;  // stored (columns, rows)
  bool absent = false;

  std::vector<int64_t> shape() const;  // in their file
};

// GPT-2 for learned positions, MPT for ALiBi. Throws bad_config if the family has no such model.
HfFamily family_of(const ModelShape& model);
std::vector<HfTensor> hf_tensors(HfFamily family, const ModelShape& model);

// Writing and reading config.json. Reading throws bad_data for models that we cannot run.
// `trained`: the longest sequence of the training, which may be shorter than the model's positions
// (n_ctx of GPT-2; for MPT a key of our own). `dtype`: that of the tensors.
std::string hf_config_json(const ModelShape& model, int64_t trained, int64_t end_token,
                           DType dtype = DType::f32);
ModelShape model_from_hf_config(std::string_view text, const std::string& name);
int64_t trained_length(std::string_view text, const ModelShape& model);

}  // namespace stretto
