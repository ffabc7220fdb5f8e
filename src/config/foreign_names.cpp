#include "config/foreign_names.h"

#include <algorithm>
#include <map>

#include "config/schema.h"

namespace stretto {
namespace {

// Names that other frameworks use for our keys, too different from ours for an edit distance.
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
      {"enable_tensorboard", "log.tensorboard"},
      {"tensorboard_dir", "log.tensorboard"},
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

// Parts of architectures that Stretto does not have; README lists them under its known limits. Keys
// of ours with similar names must not be suggested in their place.
const std::map<std::string, const char*, std::less<>>& missing_parts() {
  constexpr const char *kGroups = "grouped-query attention",
                       *kRotary = "rotary position embeddings (RoPE)",
                       *kNorm = "RMSNorm and other norms than LayerNorm",
                       *kGated = "SwiGLU and other activations than GELU",
                       *kContext = "context parallelism", *kExperts = "mixtures of experts",
                       *kWindow = "sliding-window attention", *kDropout = "dropout";
  static const std::map<std::string, const char*, std::less<>> parts = {
      {"kv_heads", kGroups},
      {"n_kv_heads", kGroups},
      {"num_kv_heads", kGroups},
      {"num_key_value_heads", kGroups},
      {"num_query_groups", kGroups},
      {"rope", kRotary},
      {"rope_theta", kRotary},
      {"rope_scaling", kRotary},
      {"rotary", kRotary},
      {"rotary_base", kRotary},
      {"rotary_percent", kRotary},
      {"use_rotary_position_embeddings", kRotary},
      {"rmsnorm", kNorm},
      {"rms_norm", kNorm},
      {"rms_norm_eps", kNorm},
      {"norm_type", kNorm},
      {"normalization", kNorm},
      {"swiglu", kGated},
      {"activation", kGated},
      {"activation_function", kGated},
      {"hidden_act", kGated},
      {"cp", kContext},
      {"context_parallel", kContext},
      {"context_parallel_size", kContext},
      {"ep", kExperts},
      {"experts", kExperts},
      {"num_experts", kExperts},
      {"n_experts", kExperts},
      {"moe", kExperts},
      {"expert_parallel", kExperts},
      {"expert_model_parallel_size", kExperts},
      {"sliding_window", kWindow},
      {"window_size", kWindow},
      {"dropout", kDropout},
      {"attention_dropout", kDropout},
      {"hidden_dropout", kDropout},
      {"resid_pdrop", kDropout},
      {"attn_pdrop", kDropout},
      {"embd_pdrop", kDropout}};
  return parts;
}

// The part after the last dot, in the spelling of other programs.
std::string last_word(std::string_view name) {
  std::string last(name.substr(name.rfind('.') + 1));
  std::replace(last.begin(), last.end(), '-', '_');
  return last;
}

}  // namespace

std::string not_supported(std::string_view name) {
  const auto part = missing_parts().find(last_word(name));
  return part == missing_parts().end() ? "" : part->second;
}

std::string key_called(std::string_view name) {
  const std::string last = last_word(name);
  const auto foreign = foreign_names().find(last);
  return key_ending_in(foreign != foreign_names().end() ? foreign->second : last);
}

}  // namespace stretto
