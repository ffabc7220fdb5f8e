// One typed Config for the whole program. The reader (reader.h) fills it from YAML files and
// dotted overrides; the rules (rules.h) validate it; everything else only reads it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "account/model_shape.h"
#include "account/topology.h"
#include "base/dtype.h"
#include "base/token_format.h"

namespace stretto {

enum class Device { cpu, cuda };
enum class LrSchedule { constant, linear, cosine, wsd };
enum class LogFormat { compact, megatron, json };
enum class GpuTransport { automatic, nccl, host };

constexpr int64_t kAuto = -1;  // "auto" for micro_batch and gpu_clock

struct ParallelConfig : Topology {
  DType reduce_dtype = DType::f32;  // gradients on their way over dp: f32 or bf16
  GpuTransport gpu_transport = GpuTransport::automatic;  // how GPU ranks talk
};

struct RampUp {       // global batch grows from `start` by `increment` over `samples` samples
  int64_t start = 0;  // 0: no ramp-up
  int64_t increment = 0;
  int64_t samples = 0;
};

struct LossScale {  // amp_fp16 only
  double initial = 65536;
  double minimum = 1;
  int64_t growth_interval = 1000;
  int64_t hysteresis = 2;
};

struct TrainConfig {
  int64_t steps = 100;
  double lr = 6e-4;
  double min_lr = 0;
  LrSchedule schedule = LrSchedule::cosine;
  int64_t warmup = 0;  // steps
  int64_t decay = 0;   // wsd: length of the final decay in steps; others: 0 = to the end
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;  // global gradient norm; 0 = no clipping
  RampUp ramp_up;
  LossScale loss_scale;
  int64_t eval_every = 0;     // steps; 0 = never
  int64_t eval_batches = 8;   // global batches per evaluation
  int64_t max_skipped = 20;   // consecutive overflowed or NaN steps before stopping
  int64_t audit_every = 100;  // replica audit; 0 = never
  double watchdog = 300;      // seconds without progress before a rank counts as hung
};

struct DataConfig {
  std::string path;                          // empty: synthetic tokens
  std::string eval_path;                     // empty: a held-out tail of `path`
  TokenFormat format = TokenFormat::detect;  // of both
  double eval_fraction = 0.05;
  std::string tokenizer;
};

struct CheckpointConfig {
  int64_t every = 0;       // steps; 0 = only at the end (and on a signal)
  int64_t keep = 2;        // newest n
  int64_t keep_every = 0;  // and each m-th step
  bool async = true;
};

struct LogConfig {
  LogFormat format = LogFormat::compact;
  int64_t every = 1;
  bool tensorboard = false;  // event files in `output`
};

struct Config {
  ModelShape model;
  int64_t seq_len = 0;  // 0: the model's positions
  Precision precision = Precision::fp32;
  int64_t micro_batch = 1;   // sequences; kAuto = largest that fits
  int64_t global_batch = 8;  // sequences
  uint64_t seed = 1234;
  bool deterministic = false;
  bool repeatable = true;
  Device device = Device::cpu;
  int64_t threads = 0;  // per rank; 0 = cores / ranks
  ParallelConfig parallel;
  Checkpointing activation_checkpointing = Checkpointing::none;
  bool activation_offload = false;
  bool optimizer_offload = false;
  DType gradient_dtype = DType::f32;  // f32, or bf16 where products are
  bool tf32 = false;
  int64_t gpu_clock = 0;     // MHz at most; 0 = as the card comes, kAuto = what makes steps shorter
  int64_t memory_limit = 0;  // bytes per rank; 0 = what the machine has
  int64_t logits_chunk = 0;  // bytes of logits at a time; 0 = what suits the device
  TrainConfig train;
  DataConfig data;
  CheckpointConfig checkpoint;
  LogConfig log;
  int64_t trace = 0;   // steps to trace
  std::string output;  // run directory; empty: nothing is written

  int64_t world_size() const { return parallel.ranks(); }
  int64_t sequence_length() const { return seq_len > 0 ? seq_len : model.positions; }
};

const char* name_of(Device value);
const char* name_of(Precision value);
const char* name_of(Checkpointing value);
const char* name_of(PipelineSchedule value);
const char* name_of(LrSchedule value);
const char* name_of(LogFormat value);
const char* name_of(GpuTransport value);

}  // namespace stretto
