// The words for each enumerator, as configurations, records and tables spell them.
#include "config/config.h"

namespace stretto {

const char* name_of(Device value) { return value == Device::cpu ? "cpu" : "cuda"; }

const char* name_of(Precision value) {
  constexpr const char* kNames[] = {"fp32", "amp_bf16", "bf16", "amp_fp16", "amp_fp8"};
  return kNames[static_cast<int>(value)];
}

const char* name_of(Checkpointing value) {
  constexpr const char* kNames[] = {"none", "gelu", "selective", "full"};
  return kNames[static_cast<int>(value)];
}

const char* name_of(PipelineSchedule value) {
  constexpr const char* kNames[] = {"gpipe", "1f1b", "interleaved", "zero_bubble", "eager_1f1b"};
  return kNames[static_cast<int>(value)];
}

const char* name_of(LrSchedule value) {
  constexpr const char* kNames[] = {"constant", "linear", "cosine", "wsd"};
  return kNames[static_cast<int>(value)];
}

const char* name_of(LogFormat value) {
  constexpr const char* kNames[] = {"compact", "megatron", "json"};
  return kNames[static_cast<int>(value)];
}

const char* name_of(GpuTransport value) {
  constexpr const char* kNames[] = {"auto", "nccl", "host"};
  return kNames[static_cast<int>(value)];
}

}  // namespace stretto
