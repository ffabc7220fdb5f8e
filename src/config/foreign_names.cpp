#include "config/foreign_names.h"

#include <algorithm>
#include <map>

#include "config/schema.h"

namespace stretto {
namespace {

// Names of the same thing in other frameworks: too far from ours for an edit distance.
const std::map<std::string, std::string, std::less<>>& foreign_names() {
  static const std::map<std::string, std::string, std::less<>> names = {
      {"n_layers", "layers"},
      {"num_layers", "layers"},
      {"n_layer", "layers"},
      {"d_model", "hidden"},
      {"hidden_size", "hidden"},
      {"n_embd", "hidden"},
      {"n_heads", "heads"},
      {"num_attention_heads", "heads"},
      {"n_head", "heads"},
      {"vocab_size", "vocab"},
      {"max_position_embeddings", "positions"},
      {"max_seq_len", "seq_len"},
      {"seq_length", "seq_len"},
      {"global_train_batch_size", "global_batch"},
      {"global_batch_size", "global_batch"},
      {"device_train_microbatch_size", "micro_batch"},
      {"micro_batch_size", "micro_batch"},
      {"block_size", "seq_len"},
      {"context_length", "seq_len"},
      {"batch_size", "global_batch"},
      {"ffn_hidden_size", "ffn"},
      {"max_duration", "steps"},
      {"max_steps", "steps"},
      {"max_iters", "steps"},
      {"train_iters", "steps"},
      {"learning_rate", "lr"},
      {"warmup_steps", "warmup"},
      {"lr_warmup_iters", "warmup"},
      {"adam_beta1", "beta1"},
      {"adam_beta2", "beta2"},
      {"tensor_model_parallel_size", "tp"},
      {"tensor_parallel_degree", "tp"},
      {"pipeline_model_parallel_size", "pp"},
      {"pipeline_parallel_degree", "pp"},
      {"sharding_strategy", "zero"},
      {"zero_stage", "zero"},
      {"grad_clip", "clip"},
      {"clip_grad", "clip"},
      {"max_norm", "clip"},
      {"recompute_granularity", "activation_checkpointing"},
      {"mixed_precision", "precision"},
      {"data_path", "data.path"},
      {"dataset", "data.path"},
      {"save", "output"},
      {"save_folder", "output"},
      {"save_interval", "checkpoint.every"},
      {"log_interval", "log.every"},
      {"eval_interval", "train.eval_every"}};
  return names;
}

// The full name of a key that ends in `.last`, or an empty text.
std::string key_ending_in(std::string_view last) {
  for (const Key& key : config_keys()) {
    if (key.name == last || key.name.ends_with("." + std::string(last))) return key.name;
  }
  return "";
}

}  // namespace

std::string key_called(std::string_view name) {
  std::string last(name.substr(name.rfind('.') + 1));
  std::replace(last.begin(), last.end(), '-', '_');
  const auto foreign = foreign_names().find(last);
  return key_ending_in(foreign != foreign_names().end() ? foreign->second : last);
}

}  // namespace stretto
