// Causal attention with Hopper's own instructions, in bf16.
#pragma once

#include "backend/cuda/attention.h"

namespace stretto::cuda {

void hopper_forward(const AttentionForward& call, Workspace& scratch, cudaStream_t stream);

// Heads of 64 and of 128. Two runs have the same bits.
bool hopper_supports(const AttentionGeometry& geometry);
void hopper_backward(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream);
void hopper_backward_64(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream);
void hopper_backward_128(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream);

}  // namespace stretto::cuda
