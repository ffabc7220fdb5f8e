// The attention alternatives: rows of a table by name, the best backward pass first, so that tests
// and benchmarks can sweep them. Each one refuses what it cannot do; the backend then takes the
// next row.
#pragma once

#include <cuda_runtime.h>

#include <span>
#include <string_view>

#include "backend/backend.h"

namespace stretto::cuda {

class Workspace;

// Geometry of packed attention operands: qkv (B, T, 3, H, D), out (B, T, H, D), lse (B, H, T).
struct AttentionGeometry {
  DType type;
  int64_t B, T, H, D;
  bool alibi;
  int64_t first_head, total_heads;
};

struct AttentionForward {
  AttentionGeometry shape;
  void* out;
  float* lse;
  const void* qkv;
};

struct AttentionBackward {
  AttentionGeometry shape;
  void* dqkv;
  Tensor dq_sums;  // given: the column sums of dq are accumulated there, if the row says so
  const void* dout;
  const void* qkv;
  const void* out;
  const float* lse;
};

struct AttentionKernel {
  const char* name;
  bool repeatable;  // two runs of its backward pass give the same bits
  bool sums_dq;     // by its backward pass
  bool (*supports)(const AttentionGeometry& shape);
  void (*forward)(const AttentionForward& call, Workspace& scratch, cudaStream_t stream);
  void (*backward)(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream);
};

float attention_scale(const AttentionGeometry& geometry);                // 1 / sqrt(D)
float attention_slope(const AttentionGeometry& geometry, int64_t head);  // 0 without ALiBi

bool flash_supports(const AttentionGeometry& geometry);
void flash_forward(const AttentionForward& call, Workspace& scratch, cudaStream_t stream);
void flash_backward(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream);
bool plain_supports(const AttentionGeometry& geometry);
void plain_forward(const AttentionForward& call, Workspace& scratch, cudaStream_t stream);
void plain_backward(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream);

std::span<const AttentionKernel> attention_kernels();
// The row called `name`, or null when the name is empty (each call takes the first row that can);
// throws for an unknown name.
const AttentionKernel* attention_kernel(std::string_view name);

// delta (B, H, T) = sum over D of dout * out: the row term of the softmax gradient.
void attention_delta(float* delta, const AttentionBackward& call, cudaStream_t stream);

}  // namespace stretto::cuda
