// Seconds of the pieces of a layer on one device.
#pragma once

#include <cstdint>
#include <span>

#include "plan/cluster.h"
#include "plan/stack.h"
#include "plan/workload.h"

namespace stretto::plan {

// The part of a product's result that one compute unit produces at a time.
struct OutputTile {
  int64_t m, n;
  double efficiency;  // small tiles of matrix units reload their operands more often
};

// The rates of a device under a software stack at one precision, computed once.
struct Rates {
  double matrix = 0;       // FLOP/s at full waves
  double head_matrix = 0;  // for the products of the logits, which are never in fp8
  double matrix_peak = 0;
  double misaligned = 0;  // FLOP/s of a product that the matrix units cannot take
  double misaligned_batched = 0;
  double stream = 0;  // bytes/s of memory-bound passes
  double units = 1;
  int64_t alignment = 8;
  std::span<const OutputTile> tiles;
  double wave = 0;
  double ramp = 0;  // fill and drain of a tile, as additional K
  bool eight_bit = false;
  double flash_forward = 0, flash_backward = 0, flash_64 = 1, flash_ramp = 0;
  double softmax = 0;        // bytes per score and forward pass
  double unfused = 0;        // additional bytes if no fused kernel is used
  double cross_entropy = 0;  // bytes per logit
  double gap = 0;            // seconds between kernels
  int element = 2;           // bytes of an activation
};

Rates make_rates(const Cluster& cluster, const Stack& stack, Precision precision);

// C[batch, M, N] = A[batch, M, K] B[batch, K, N].
double gemm_seconds(const Rates& rates, double batch, int64_t m, int64_t n, int64_t k);

struct LayerTime {
  double gemm = 0;       // dense products
  double attention = 0;  // scores, softmax, context
  double passes = 0;     // memory-bound work
  double launches = 0;   // gaps
  double total() const { return gemm + attention + passes + launches; }
  LayerTime& operator+=(const LayerTime& other);
  LayerTime operator*(double factor) const;
};

// One micro-batch through one transformer layer on one device.
LayerTime layer_forward(const Rates& rates, const Stack& stack, const Workload& work,
                        const Layout& layout);
LayerTime layer_backward(const Rates& rates, const Stack& stack, const Workload& work,
                         const Layout& layout);
// The down projection, forward: our own recomputation leaves it out.
double down_product_seconds(const Rates& rates, const Workload& work, const Layout& layout);
// One more write of GELU's output.
double gelu_write_seconds(const Rates& rates, const Workload& work, const Layout& layout);
// Output head and loss, forward and backward.
LayerTime head_both(const Rates& rates, const Stack& stack, const Workload& work,
                    const Layout& layout);

}  // namespace stretto::plan
