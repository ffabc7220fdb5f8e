// What attention_hopper.cu needs before and after it: dq adds up in f32, a tile of 64 queries as a
// group of four warps has it in registers, and becomes rows in the end.
#pragma once

#include "backend/cuda/attention.h"

namespace stretto::cuda::dq {

constexpr int kRows = 64, kColumns = 64;  // of a tile

struct Sums {
  float* dq;  // (B, H, T / 64, 8, 128, 4): eight columns, thread
  // (B, H, T / 64, 2, 64): where sums begin that end as scores less their logarithm, and as dp -
  // delta.
  const float* starts;
  int* next;  // a counter
};

Sums begin(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream);  // dq: zeros
void finish(const AttentionBackward& call, const Sums& sums, cudaStream_t stream);

}  // namespace stretto::cuda::dq
