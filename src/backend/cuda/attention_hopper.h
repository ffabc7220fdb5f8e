// The backward pass of causal attention with Hopper's own instructions: bf16, heads of 64 and of
// 128. It adds dq with atomics: two runs may differ in the last bits.
#pragma once

#include "backend/cuda/attention.h"

namespace stretto::cuda {

bool hopper_supports(const AttentionGeometry& geometry);
// By cuDNN, or by flash where it is missing.
void hopper_forward(const AttentionForward& call, Workspace& scratch, cudaStream_t stream);
void hopper_backward(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream);

void hopper_backward_64(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream);
void hopper_backward_128(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream);

}  // namespace stretto::cuda
