// How a model is run, as far as memory and FLOPs depend on it.
#pragma once

#include <optional>

#include "base/dtype.h"

namespace stretto {

enum class Precision { fp32, amp_bf16, bf16, amp_fp16, amp_fp8 };

// none: keep every activation. gelu: recompute GELU outputs, as part of GELU's own gradient.
// selective: LayerNorm outputs as well, still no matrix product. full: keep only each layer's input
// and repeat its forward pass.
enum class Checkpointing { none, gelu, selective, full };
constexpr Checkpointing kCheckpointings[] = {Checkpointing::none, Checkpointing::gelu,
                                             Checkpointing::selective, Checkpointing::full};

enum class PipelineSchedule { gpipe, one_f_one_b, interleaved, zero_bubble, eager_one_f_one_b };

// Whether gradients of weights are separate tasks.
constexpr bool splits_backward(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::zero_bubble;
}

// How often a step recomputes what checkpointing did not keep. With a split backward pass other
// layers overwrite it before the weights' gradients are computed, so it is recomputed for them as
// well.
constexpr int recomputations(bool split_backward) { return split_backward ? 2 : 1; }

// Element types of a precision. `master`: what the optimizer keeps in addition to the compute
// weights: an f32 copy, or (u16) its lower half if the upper half is the compute weight (SplitF32).
struct PrecisionTypes {
  DType compute = DType::f32;
  DType gradient = DType::f32;
  DType moment = DType::f32;
  std::optional<DType> master;
};

constexpr PrecisionTypes types_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return {};
    case Precision::amp_bf16:
    case Precision::amp_fp8:
      return {DType::bf16, DType::f32, DType::f32, DType::u16};
    case Precision::amp_fp16:
      return {DType::f16, DType::f32, DType::f32, DType::f32};
    case Precision::bf16:
      return {DType::bf16, DType::bf16, DType::bf16, {}};
  }
  return {};
}

// Gradients that would be f32 with this precision are kept in `gradient` instead.
constexpr PrecisionTypes types_of(Precision precision, DType gradient) {
  PrecisionTypes types = types_of(precision);
  if (types.gradient == DType::f32) types.gradient = gradient;
  return types;
}

// The type in which a checkpoint keeps a weight: f32 if there is an f32 copy, else that of the
// weight.
constexpr DType saved_weight(const PrecisionTypes& types) {
  return types.master ? DType::f32 : types.compute;
}

// Bytes of a checkpoint per parameter: the weight and two moments.
inline int64_t checkpoint_bytes(Precision precision) {
  const PrecisionTypes types = types_of(precision);
  return static_cast<int64_t>(dtype_size(saved_weight(types)) + 2 * dtype_size(types.moment));
}

}  // namespace stretto
