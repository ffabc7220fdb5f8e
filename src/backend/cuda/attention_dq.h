// What attention_hopper.cuh needs before and after it: dq adds up in f32, a tile of 64 queries as a
// group of four warps has it in registers, and becomes rows in the end.
#pragma once

#include "backend/cuda/attention.h"

namespace stretto::cuda::dq {

constexpr int kRows = 64, kColumns = 64;  // of a tile; a head has one or two side by side

struct Sums {
  float* dq;  // none, or
              // (B, H, T / 64, D / 64, 8, 128, 4): eight columns, thread
  // (B, H, T / 64, 2, 64): what is added to scores, as powers of two, so that they are less the
  // logarithm of their sum; and to dp, so that it is less delta.
  const float* starts;
  float* parts;  // of the column sums of dq
  int* next;     // two counters
};

// dq: zeros, if it adds up here.
Sums begin(const AttentionBackward& call, bool adds_dq, Workspace& scratch, cudaStream_t stream);
// dq in its place, and call.dq_sums.
void finish(const AttentionBackward& call, const Sums& sums, cudaStream_t stream);

}  // namespace stretto::cuda::dq
