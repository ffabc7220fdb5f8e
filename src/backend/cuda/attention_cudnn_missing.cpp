#include "backend/cuda/attention_cudnn.h"

namespace stretto::cuda {
namespace {

[[noreturn]] void missing() {
  throw Error(ExitCode::internal, "cuDNN attention was called in a build without it",
              "install nvidia-cudnn-frontend and build again, or set the environment variable "
              "STRETTO_CUDA_ATTENTION=flash");
}

}  // namespace

bool cudnn_supports(const AttentionGeometry&) { return false; }
void cudnn_forward(const AttentionForward&, Workspace&, cudaStream_t) { missing(); }
void cudnn_backward(const AttentionBackward&, Workspace&, cudaStream_t) { missing(); }
void cudnn_atomic_backward(const AttentionBackward&, Workspace&, cudaStream_t) { missing(); }

}  // namespace stretto::cuda
