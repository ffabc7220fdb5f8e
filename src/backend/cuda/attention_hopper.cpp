#include "backend/cuda/attention_hopper.h"

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/tensor_map.h"

namespace stretto {

// The kernels are empty in code for other GPUs, plain sm_90 among them.
bool cuda_is_hopper([[maybe_unused]] int device) {
#if defined(STRETTO_SM90A)
  int major = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess) {
    cudaGetLastError();
  }
  return major == 9;
#else
  return false;
#endif
}

}  // namespace stretto

namespace stretto::cuda {

bool hopper_supports(const AttentionGeometry& g) {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  return cuda_is_hopper(device) && flash_supports(g) && g.type == DType::bf16 &&
         (g.D == 64 || g.D == 128) && !g.alibi && g.T % 128 == 0 &&
         g.B * g.T * g.H < (int64_t{1} << 31) && has_tensor_maps();
}

void hopper_backward(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream) {
  (call.shape.D == 64 ? hopper_backward_64 : hopper_backward_128)(call, scratch, stream);
}

}  // namespace stretto::cuda
