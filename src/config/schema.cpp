#include "config/schema.h"

#include <type_traits>

namespace stretto {
namespace {

// Limits of single values. Within them a model's parameters can be counted in 64 bits. Products
// with sequences and ranks are limited by rules_size.cpp.
constexpr double kMaxLayers = 10'000;
constexpr double kMaxWidth = 1 << 20;
constexpr double kMaxTokens = 1 << 27;  // vocabulary, positions
constexpr double kMaxBatch = 1 << 24;
constexpr double kMaxRanks = 1 << 20;
constexpr double kMaxSteps = 1e12;
constexpr double kMaxSeconds = 1e9;
constexpr double kMaxSeed = 9e18;
constexpr double kMaxBytes = 1e18;

template <class Number, class Field>
Key number(ValueType type, const char* name, const char* unit, double least, double most,
           const char* doc, Field field) {
  Key key{name, type, unit, least, most, {}, "", doc, {}, {}};
  key.get = [field](const Config& c) { return Value(static_cast<Number>(field(c))); };
  key.set = [field](Config& c, const Value& v) {
    auto& target = field(c);
    target = static_cast<std::remove_reference_t<decltype(target)>>(std::get<Number>(v));
  };
  return key;
}

template <class Field>
Key count(const char* name, const char* unit, double least, double most, const char* doc,
          Field field) {
  return number<int64_t>(ValueType::count, name, unit, least, most, doc, field);
}

template <class Field>
Key real(const char* name, double least, double most, const char* doc, Field field) {
  return number<double>(ValueType::real, name, "", least, most, doc, field);
}

template <class Field>
Key flag(const char* name, const char* doc, Field field) {
  return number<bool>(ValueType::flag, name, "", 0, 0, doc, field);
}

template <class Field>
Key text(const char* name, const char* doc, Field field) {
  Key key{name, ValueType::text, "", 0, 0, {}, "", doc, {}, {}};
  key.get = [field](const Config& c) { return Value(std::string(field(c))); };
  key.set = [field](Config& c, const Value& v) { field(c) = std::get<std::string>(v); };
  return key;
}

// `words[i]` stands for the enumerator with number i.
template <class Field>
Key choice(const char* name, std::vector<std::string> words, const char* doc, Field field) {
  Key key{name, ValueType::word, "", 0, 0, words, "", doc, {}, {}};
  key.get = [field, words](const Config& c) {
    const auto index = static_cast<size_t>(field(c));
    return Value(index < words.size() ? words[index] : std::string("invalid"));
  };
  key.set = [field, words](Config& c, const Value& v) {
    auto& target = field(c);
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] == std::get<std::string>(v)) {
        target = static_cast<std::remove_reference_t<decltype(target)>>(i);
      }
    }
  };
  return key;
}

template <class Enum>
std::vector<std::string> names(Enum last) {
  std::vector<std::string> words;
  for (int i = 0; i <= static_cast<int>(last); ++i) words.push_back(name_of(static_cast<Enum>(i)));
  return words;
}

// An element type of gradients.
template <class Field>
Key dtype(const char* name, const char* doc, Field field) {
  const std::vector<std::string> words = {dtype_name(DType::f32), dtype_name(DType::bf16)};
  Key key{name, ValueType::word, "", 0, 0, words, "", doc, {}, {}};
  key.get = [field](const Config& c) { return Value(std::string(dtype_name(field(c)))); };
  key.set = [field](Config& c, const Value& v) {
    field(c) = dtype_from_name(std::get<std::string>(v));
  };
  return key;
}

#define FIELD(member) \
  [](auto& c) -> auto& { return c.member; }

void add_model(std::vector<Key>& keys) {
  keys.push_back(text("model.name", "registry name (base of the other fields) or your own",
                      FIELD(model.name)));
  keys.push_back(
      count("model.layers", "", 1, kMaxLayers, "transformer blocks", FIELD(model.layers)));
  keys.push_back(
      count("model.hidden", "", 2, kMaxWidth, "width of the residual stream", FIELD(model.hidden)));
  keys.push_back(count("model.heads", "", 1, kMaxWidth, "attention heads", FIELD(model.heads)));
  keys.push_back(
      count("model.vocab", "tokens", 1, kMaxTokens, "vocabulary size", FIELD(model.vocab)));
  keys.push_back(count("model.positions", "tokens", 1, kMaxTokens,
                       "rows of the position table; the longest sequence with alibi",
                       FIELD(model.positions)));
  keys.push_back(count("model.ffn", "", 2, 8 * kMaxWidth,
                       "feed-forward width; 4 x hidden unless given", FIELD(model.ffn)));
  keys.push_back(choice("model.position_kind", {"learned", "alibi"}, "how positions enter",
                        FIELD(model.position_kind)));
  keys.push_back(choice("model.gelu", {"tanh", "exact"},
                        "GPT-2's tanh approximation, or exact as in MPT (and with alibi, unless "
                        "given)",
                        FIELD(model.mlp)));
  Key bias = flag("model.bias", "biases in linear layers and LayerNorm", FIELD(model.biases.mlp));
  bias.set = [](Config& c, const Value& v) {
    c.model.biases = Biases::all_or_none(std::get<bool>(v));
  };
  keys.push_back(std::move(bias));
  keys.push_back(flag("model.tied_embedding", "the output head is the token embedding",
                      FIELD(model.tied_embedding)));
}

void add_run(std::vector<Key>& keys) {
  keys.push_back(count("seq_len", "tokens", 1, kMaxTokens,
                       "tokens per sequence; the model's positions unless given", FIELD(seq_len)));
  keys.push_back(choice("precision", names(Precision::amp_fp8),
                        "arithmetic; amp_* keeps fp32 master weights", FIELD(precision)));
  keys.push_back(count("micro_batch", "sequences", 1, kMaxBatch,
                       "sequences per forward pass and rank; auto: the largest that fits; need "
                       "not divide the batch",
                       FIELD(micro_batch)));
  keys.back().special = "auto";
  keys.push_back(count("global_batch", "sequences", 1, kMaxBatch,
                       "sequences per optimizer step, all ranks together", FIELD(global_batch)));
  keys.push_back(
      count("seed", "", 0, kMaxSeed, "weights, data order and stochastic rounding", FIELD(seed)));
  keys.push_back(flag("deterministic", "bit-equal results for every dp that divides 16",
                      FIELD(deterministic)));
  keys.push_back(flag("repeatable",
                      "the same bits from run to run; false: GPU attention may add in any order",
                      FIELD(repeatable)));
  keys.push_back(choice("device", names(Device::cuda), "where tensors live", FIELD(device)));
  keys.push_back(
      count("threads", "", 0, 4096, "CPU threads per rank; 0: cores / ranks", FIELD(threads)));
  keys.push_back(choice("activation_checkpointing", names(Checkpointing::full),
                        "what backward recomputes instead of keeping",
                        FIELD(activation_checkpointing)));
  keys.push_back(
      flag("activation_offload", "keep activations in host memory", FIELD(activation_offload)));
  keys.push_back(
      flag("optimizer_offload", "keep optimizer state in host memory", FIELD(optimizer_offload)));
  keys.push_back(dtype("gradient_dtype", "element type of gradients in amp_bf16 and amp_fp8",
                       FIELD(gradient_dtype)));
  keys.push_back(flag("tf32", "fp32 matrix products may use TF32 (cuda)", FIELD(tf32)));
  keys.push_back(count("gpu_clock", "MHz", 0, 10000,
                       "ceiling for the GPU's clock while the run lasts (needs the right to use "
                       "nvidia-smi -lgc); 0: none; auto: one that makes steps shorter under a "
                       "power cap",
                       FIELD(gpu_clock)));
  keys.back().special = "auto";
  keys.push_back(number<int64_t>(ValueType::bytes, "memory_limit", "bytes", 0, kMaxBytes,
                                 "most memory per rank; 0: what the machine has",
                                 FIELD(memory_limit)));
  keys.push_back(number<int64_t>(ValueType::bytes, "logits_chunk", "bytes", 0, kMaxBytes,
                                 "most memory for logits at a time; 0: 64 MiB, on a GPU 1600 MiB",
                                 FIELD(logits_chunk)));
  keys.push_back(count("trace", "steps", 0, 1e6, "steps to write a timeline of", FIELD(trace)));
  keys.push_back(text("output", "run directory; empty: nothing is written", FIELD(output)));
}

void add_parallel(std::vector<Key>& keys) {
  keys.push_back(
      count("parallel.dp", "ranks", 1, kMaxRanks, "data-parallel replicas", FIELD(parallel.dp)));
  keys.push_back(
      count("parallel.tp", "ranks", 1, kMaxRanks, "tensor-parallel degree", FIELD(parallel.tp)));
  keys.push_back(
      count("parallel.pp", "ranks", 1, kMaxRanks, "pipeline stages", FIELD(parallel.pp)));
  keys.push_back(choice("parallel.zero", {"0", "1", "2", "3"},
                        "what dp ranks shard: 0 NO_SHARD, 1 optimizer (ZeRO-1), 2 and gradients "
                        "(SHARD_GRAD_OP), 3 and weights (FULL_SHARD)",
                        FIELD(parallel.zero)));
  keys.push_back(count("parallel.zero_group", "ranks", 0, kMaxRanks,
                       "hybrid shard: ranks per sharding group; 0: the whole dp axis",
                       FIELD(parallel.zero_group)));
  keys.push_back(count("parallel.interleave", "", 1, kMaxLayers, "model chunks per pipeline rank",
                       FIELD(parallel.interleave)));
  keys.push_back(choice("parallel.schedule", names(PipelineSchedule::eager_one_f_one_b),
                        "order of pipeline work", FIELD(parallel.schedule)));
  keys.push_back(flag("parallel.sequence_parallel",
                      "split the sequence over tp ranks outside attention and feed-forward",
                      FIELD(parallel.sequence_parallel)));
  keys.push_back({"parallel.partition",
                  ValueType::text,
                  "",
                  0,
                  0,
                  {},
                  "list",
                  "layers per stage: transformer, transformer+embedding, or a list [3, 4, 5]",
                  [](const Config& c) { return Value(c.parallel.partition.words()); },
                  [](Config& c, const Value& v) {
                    c.parallel.partition = Partition(std::get<std::string>(v));
                  }});
  keys.push_back(text("parallel.order", "rank order, innermost axis first", FIELD(parallel.order)));
  keys.push_back(dtype("parallel.reduce_dtype", "element type of gradients on their way over dp",
                       FIELD(parallel.reduce_dtype)));
  keys.push_back(choice("parallel.gpu_transport", names(GpuTransport::host),
                        "GPU ranks: NCCL, or by way of host memory; auto: NCCL where each rank has "
                        "a GPU of its own",
                        FIELD(parallel.gpu_transport)));
}

void add_train(std::vector<Key>& keys) {
  keys.push_back(
      count("train.steps", "steps", 1, kMaxSteps, "optimizer steps", FIELD(train.steps)));
  keys.push_back(real("train.lr", 0, 1e3, "peak learning rate", FIELD(train.lr)));
  keys.push_back(real("train.min_lr", 0, 1e3,
                      "learning rate at the end of the decay: of its last step",
                      FIELD(train.min_lr)));
  keys.push_back(choice("train.schedule", names(LrSchedule::wsd), "shape of the learning rate",
                        FIELD(train.schedule)));
  keys.push_back(
      count("train.warmup", "steps", 0, kMaxSteps,
            "linear rise to lr, which step number `warmup` has; 0: the first step is in the decay",
            FIELD(train.warmup)));
  keys.push_back(count("train.decay", "steps", 0, kMaxSteps,
                       "counted from the end of the warm-up, 0: to the end; wsd: length of the "
                       "final decay",
                       FIELD(train.decay)));
  keys.push_back(real("train.beta1", 0, 1, "Adam: memory of gradients", FIELD(train.beta1)));
  keys.push_back(real("train.beta2", 0, 1, "Adam: memory of their squares", FIELD(train.beta2)));
  keys.push_back(
      real("train.eps", 0, 1, "Adam: added to the root of the squares", FIELD(train.eps)));
  keys.push_back(
      real("train.weight_decay", 0, 1e3, "decoupled, on matrices only", FIELD(train.weight_decay)));
  keys.push_back(
      real("train.clip", 0, 1e30, "global gradient norm; 0: no clipping", FIELD(train.clip)));
  keys.push_back(count("train.ramp_up.start", "sequences", 0, kMaxBatch,
                       "first global batch; 0: no ramp-up", FIELD(train.ramp_up.start)));
  keys.push_back(count("train.ramp_up.increment", "sequences", 0, kMaxBatch, "growth per stage",
                       FIELD(train.ramp_up.increment)));
  keys.push_back(count("train.ramp_up.samples", "sequences", 0, kMaxSteps,
                       "consumed when the full batch is reached", FIELD(train.ramp_up.samples)));
  keys.push_back(real("train.loss_scale.initial", 0, 0x1p100, "amp_fp16: the scale it begins with",
                      FIELD(train.loss_scale.initial)));
  keys.push_back(real("train.loss_scale.minimum", 0, 0x1p100, "amp_fp16: the least it may be",
                      FIELD(train.loss_scale.minimum)));
  keys.push_back(count("train.loss_scale.growth_interval", "steps", 1, kMaxSteps,
                       "good steps before the scale doubles",
                       FIELD(train.loss_scale.growth_interval)));
  keys.push_back(count("train.loss_scale.hysteresis", "steps", 1, kMaxSteps,
                       "overflows tolerated before the scale halves",
                       FIELD(train.loss_scale.hysteresis)));
  keys.push_back(count("train.eval_every", "steps", 0, kMaxSteps,
                       "steps between evaluations; 0: never", FIELD(train.eval_every)));
  keys.push_back(count("train.eval_batches", "batches", 1, 1e9, "global batches per evaluation",
                       FIELD(train.eval_batches)));
  keys.push_back(count("train.max_skipped", "steps", 1, kMaxSteps,
                       "overflowed or NaN steps in a row before stopping",
                       FIELD(train.max_skipped)));
  keys.push_back(count("train.audit_every", "steps", 0, kMaxSteps,
                       "compare what must be equal on all replicas; 0: never",
                       FIELD(train.audit_every)));
  keys.push_back(number<double>(ValueType::seconds, "train.watchdog", "seconds", 0, kMaxSeconds,
                                "time without progress before a rank counts as hung",
                                FIELD(train.watchdog)));
}

void add_rest(std::vector<Key>& keys) {
  keys.push_back(
      text("data.path", "text or token file; empty: synthetic tokens", FIELD(data.path)));
  keys.push_back(text("data.eval_path", "what is evaluated; empty: a held-out tail of data.path",
                      FIELD(data.eval_path)));
  keys.push_back(choice("data.format", names(TokenFormat::bytes),
                        "layout of both files; u16: raw uint16 without a header (nanoGPT)",
                        FIELD(data.format)));
  keys.push_back(real(
      "data.eval_fraction", 0, 1,
      "share of data.path that is held out if train.eval_every is set and data.eval_path is not",
      FIELD(data.eval_fraction)));
  keys.push_back(text("data.tokenizer",
                      "the tokenizer that made the tokens; generate, eval and export use it",
                      FIELD(data.tokenizer)));
  keys.push_back(count("checkpoint.every", "steps", 0, kMaxSteps,
                       "steps between saves; 0: only at the end and on a signal",
                       FIELD(checkpoint.every)));
  keys.push_back(
      count("checkpoint.keep", "", 1, 1e6, "newest checkpoints kept", FIELD(checkpoint.keep)));
  keys.push_back(count("checkpoint.keep_every", "steps", 0, kMaxSteps,
                       "checkpoints of these steps stay for good; 0: none",
                       FIELD(checkpoint.keep_every)));
  keys.push_back(flag("checkpoint.async", "write while training goes on", FIELD(checkpoint.async)));
  keys.push_back(choice("log.format", names(LogFormat::json),
                        "form of a step's line on the console", FIELD(log.format)));
  keys.push_back(
      count("log.every", "steps", 1, kMaxSteps, "steps per console line", FIELD(log.every)));
  keys.push_back(flag("log.tensorboard",
                      "write the curves of every step for TensorBoard into output",
                      FIELD(log.tensorboard)));
}

#undef FIELD

}  // namespace

const std::vector<Key>& config_keys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> rows;
    add_model(rows);
    add_run(rows);
    add_parallel(rows);
    add_train(rows);
    add_rest(rows);
    return rows;
  }();
  return keys;
}

const Key* find_key(std::string_view name) {
  for (const Key& key : config_keys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

}  // namespace stretto
