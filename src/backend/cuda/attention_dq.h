// What attention_hopper.cuh needs before and after it. dq adds up in f32, a tile of 64 queries as a
// group of four warps has it in registers.
#pragma once

#include "backend/cuda/attention.h"

namespace stretto::cuda::dq {

constexpr int kRows = 64, kColumns = 64;  // of a tile; a head has one or two side by side

struct Sums {
  float* dq;   // (B, H, T / 64, D / 64, 8, 128, 4): eight columns, thread
  int* turns;  // (B, H, T / 64, D / 64): how many blocks of keys have added their share
  // (B, H, T / 64, 2, 64): what is added to scores, as powers of two, so that they are less the
  // logarithm of their sum; and to dp, so that it is less delta.
  const float* starts;
  float* parts;  // none, or (B, T / 64, H D): of the column sums of dq
  int* next;     // a counter of items
};

// starts, and zeros in turns and next.
Sums begin(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream);
// call.dq_sums, if it is there.
void finish(const AttentionBackward& call, const Sums& sums, cudaStream_t stream);

}  // namespace stretto::cuda::dq
