// Every matrix product of a training step, as a list: what the formulas of account/flops.h are held
// against.
#pragma once

#include <cstdint>
#include <vector>

#include "account/flops.h"

namespace stretto::testing {

enum class Phase { forward, backward, recompute };
enum class Attention { dense, causal };

// `count` products (m x k) times (k x n). A triangular one computes only row i's first i + 1
// columns (or, in the backward pass, sums over as many terms), so m(m+1)/2 stands for m * m.
struct MatrixProduct {
  Product product;
  Phase phase;
  int64_t count, m, n, k;
  bool triangular;

  double flops() const;
};

// Forward products. Attention's are `batch * heads` separate ones per layer.
inline std::vector<MatrixProduct> forward_products(const ModelShape& s, int64_t batch, int64_t seq,
                                                   bool causal) {
  const int64_t rows = batch * seq, c = s.hidden, f = s.ffn, l = s.layers;
  const int64_t pairs = l * batch * s.heads, d = s.head_size();
  const Phase phase = Phase::forward;
  return {
      {Product::qkv, phase, l, rows, 3 * c, c, false},
      {Product::scores, phase, pairs, seq, seq, d, causal},
      {Product::values, phase, pairs, seq, d, seq, causal},
      {Product::proj, phase, l, rows, c, c, false},
      {Product::up, phase, l, rows, f, c, false},
      {Product::down, phase, l, rows, c, f, false},
      {Product::head, phase, 1, rows, s.vocab, c, false},
  };
}

// Y = A B has dA = dY B^T and dB = A^T dY: the same three sizes in other places.
inline void add_backward(std::vector<MatrixProduct>& list, const MatrixProduct& p) {
  list.push_back({p.product, Phase::backward, p.count, p.m, p.k, p.n, p.triangular});
  list.push_back({p.product, Phase::backward, p.count, p.k, p.n, p.m, p.triangular});
}

// Full checkpointing repeats a layer up to what its backward pass reads: nothing reads the output
// of the last product, so that one is left out.
inline bool is_repeated(Product p) { return p != Product::down && p != Product::head; }

inline double MatrixProduct::flops() const {
  const double all = 2.0 * static_cast<double>(count) * static_cast<double>(m) *
                     static_cast<double>(n) * static_cast<double>(k);
  if (!triangular) return all;
  // Two of the three sizes are the sequence length: the pair that the triangle halves.
  const double seq = static_cast<double>(m == n || m == k ? m : n);
  return all * (seq + 1) / (2 * seq);
}

// Everything that a step over `batch` sequences of `seq` tokens multiplies, as our kernels do it.
// Recompute holds the layers' forward pass under full checkpointing, without the last product of
// each: nothing reads its output again. Fused attention stores no probabilities and multiplies
// q k^T once more in its backward pass: with `fused_attention` that product is listed under
// recompute, too.
inline std::vector<MatrixProduct> matrix_products(const ModelShape& model, int64_t batch,
                                                  int64_t seq, Attention attention,
                                                  Checkpointing checkpointing,
                                                  bool fused_attention) {
  const auto forward = forward_products(model, batch, seq, attention == Attention::causal);
  std::vector<MatrixProduct> list = forward;
  for (const MatrixProduct& p : forward) add_backward(list, p);
  for (MatrixProduct p : forward) {
    p.phase = Phase::recompute;
    if (checkpointing == Checkpointing::full && is_repeated(p.product)) list.push_back(p);
    if (fused_attention && p.product == Product::scores) list.push_back(p);
  }
  return list;
}

}  // namespace stretto::testing
