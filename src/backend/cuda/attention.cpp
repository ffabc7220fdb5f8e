#include "backend/cuda/attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "account/gpu_limits.h"
#include "backend/cuda/attention_cudnn.h"
#include "backend/cuda/attention_hopper.h"
#include "backend/cuda/cuda_backend.h"

namespace stretto::cuda {
namespace {

const std::array kKernels = {
    AttentionKernel{"hopper", true, true, hopper_supports, hopper_forward, hopper_backward},
    AttentionKernel{"cudnn-atomic", false, false, cudnn_supports, cudnn_forward,
                    cudnn_atomic_backward},
    AttentionKernel{"cudnn", true, false, cudnn_supports, cudnn_forward, cudnn_backward},
    AttentionKernel{"flash", true, false, flash_supports, flash_forward, flash_backward},
    AttentionKernel{"plain", true, false, plain_supports, plain_forward, plain_backward},
};

AttentionGeometry geometry_of(ConstTensor qkv, const AttentionOptions& options) {
  const int64_t B = qkv.shape()[0], T = qkv.shape()[1], H = options.heads;
  return {qkv.dtype(),
          B,
          T,
          H,
          qkv.count() / (B * T * 3 * H),
          options.alibi,
          options.first_head,
          options.total_heads > 0 ? options.total_heads : H};
}

}  // namespace

float attention_scale(const AttentionGeometry& geometry) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(geometry.D)));
}

// A geometric series from 2^(-8/n) for n heads, n a power of two; otherwise the series of the next
// smaller power of two, then every other member of the series of twice that.
float attention_slope(const AttentionGeometry& geometry, int64_t head) {
  if (!geometry.alibi) return 0.0f;
  const int64_t global = geometry.first_head + head;
  int64_t power = 1;
  while (power * 2 <= geometry.total_heads) power *= 2;
  const double step = 8.0 / static_cast<double>(power);
  const double exponent = global < power ? step * static_cast<double>(global + 1)
                                         : step / 2 * static_cast<double>(2 * (global - power) + 1);
  return static_cast<float>(std::exp2(-exponent));
}

std::span<const AttentionKernel> attention_kernels() { return kKernels; }

const AttentionKernel* attention_kernel(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const AttentionKernel& kernel : kKernels) {
    if (name == kernel.name) return &kernel;
  }
  std::string names;
  for (const AttentionKernel& kernel : kKernels) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kernel.name);
  }
  throw Error(ExitCode::bad_config, fmt::format("no attention kernel is called '{}'", name),
              fmt::format("use one of {}", names));
}

const AttentionKernel& CudaBackend::attention_for(
    const AttentionGeometry& geometry, Direction direction,
    std::initializer_list<const void*> operands) const {
  const bool aligned = std::all_of(operands.begin(), operands.end(), [](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % 16 == 0;
  });
  const auto able = [&](const AttentionKernel& kernel) {
    return kernel.supports(geometry) && (aligned || kernel.forward == plain_forward);
  };
  if (attention_ != nullptr && able(*attention_)) return *attention_;
  // Forward, cuDNN takes 5 % less time than ours with heads of 64, and the same with 128.
  const bool cudnn_first = direction == Direction::forward && cudnn_supports(geometry);
  for (const AttentionKernel& kernel : kKernels) {
    if (cudnn_first && kernel.forward == hopper_forward) continue;
    const bool allowed = kernel.repeatable || !repeatable_ || direction == Direction::forward;
    if (allowed && able(kernel)) return kernel;
  }
  throw Error(ExitCode::bad_config,
              fmt::format("no attention kernel for {} sequences with {} heads of size {} in {}",
                          geometry.B, geometry.H, geometry.D, dtype_name(geometry.type)),
              fmt::format("use at most {} sequences at once, {} heads on a rank, and heads of at "
                          "most {}",
                          kGpuSequences, kGpuHeads, kGpuHeadSize));
}

void CudaBackend::do_attention_forward(Tensor out, Tensor lse, ConstTensor qkv,
                                       const AttentionOptions& options) {
  if (out.count() == 0) return;
  const AttentionForward call{geometry_of(qkv, options), out.data(), lse.as<float>(), qkv.data()};
  attention_for(call.shape, Direction::forward, {out.data(), qkv.data()})
      .forward(call, scratch_, stream());
}

void CudaBackend::do_attention_backward(Tensor dqkv, ConstTensor dout, ConstTensor qkv,
                                        ConstTensor out, ConstTensor lse,
                                        const AttentionOptions& options, Tensor dq_sums) {
  if (out.count() == 0) return;
  const AttentionGeometry g = geometry_of(qkv, options);
  const AttentionBackward call{g,          dqkv.data(), dq_sums,        dout.data(),
                               qkv.data(), out.data(),  lse.as<float>()};
  const AttentionKernel& kernel =
      attention_for(g, Direction::backward, {dqkv.data(), dout.data(), qkv.data(), out.data()});
  kernel.backward(call, scratch_, stream());
  if (dq_sums && !kernel.sums_dq) {
    leading_column_sum(dq_sums, dqkv.view({g.B * g.T, 3 * g.H * g.D}));
  }
}

}  // namespace stretto::cuda
