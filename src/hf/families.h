// How Hugging Face model families name and store our parameters: one table per family, read by
// export and import alike.
#pragma once

#include <string>
#include <vector>

#include "account/model_shape.h"
#include "account/parameters.h"
#include "base/dtype.h"

namespace stretto {

enum class HfFamily { gpt2, mpt };
const char* name_of(HfFamily family);  // the model_type of config.json

// One of our parameters and its counterpart. `spec` is none of ours where a family demands a
// tensor that the model lacks (`absent`): it is exported as zeros.
struct HfTensor {
  ParameterSpec spec;
  std::string name;         // "transformer.h.3.attn.c_attn.weight"
  bool transposed = false;  // stored (columns, rows)
  bool absent = false;

  std::vector<int64_t> shape() const;  // in their file
};

// GPT-2 for learned positions, MPT for ALiBi. bad_config when the family has no such model.
HfFamily family_of(const ModelShape& model);
std::vector<HfTensor> hf_tensors(HfFamily family, const ModelShape& model);

// config.json both ways. Reading throws bad_data for models that we cannot compute. `trained`: the
// longest sequence that the model has seen, which may be less than it has positions (GPT-2's
// n_ctx; of MPT a key of our own). `dtype`: of the tensors.
std::string hf_config_json(const ModelShape& model, int64_t trained, int64_t end_token,
                           DType dtype = DType::f32);
ModelShape model_from_hf_config(std::string_view text, const std::string& name);
int64_t trained_length(std::string_view text, const ModelShape& model);

}  // namespace stretto
