// cuDNN's flash attention through cudnn-frontend graphs: attention_cudnn.cpp where the headers were
// found, attention_cudnn_missing.cpp (which supports nothing) elsewhere.
#pragma once

#include "backend/cuda/attention.h"

namespace stretto::cuda {

bool cudnn_supports(const AttentionGeometry& geometry);
void cudnn_forward(const AttentionForward& call, Workspace& scratch, cudaStream_t stream);
void cudnn_backward(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream);
// Adds dq with atomics: faster, and different in the last bits from run to run. Only by name.
void cudnn_atomic_backward(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream);

}  // namespace stretto::cuda
