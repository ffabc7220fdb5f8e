// The list of matrix products of a training step.
#include <vector>

#include "account/flops.h"
#include "base/error.h"

namespace stretto {
namespace {

// Forward products. Attention's are `batch * heads` separate ones per layer.
std::vector<MatrixProduct> forward_products(const ModelShape& s, int64_t batch, int64_t seq,
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
void add_backward(std::vector<MatrixProduct>& list, const MatrixProduct& p) {
  list.push_back({p.product, Phase::backward, p.count, p.m, p.k, p.n, p.triangular});
  list.push_back({p.product, Phase::backward, p.count, p.k, p.n, p.m, p.triangular});
}

// Full checkpointing repeats a layer up to what its backward pass reads: nothing reads the output
// of the last product, so that one is left out.
bool is_repeated(Product p) { return p != Product::down && p != Product::head; }

bool is_attention(Product p) { return p == Product::scores || p == Product::values; }

}  // namespace

double MatrixProduct::flops() const {
  const double all = 2.0 * static_cast<double>(count) * static_cast<double>(m) *
                     static_cast<double>(n) * static_cast<double>(k);
  if (!triangular) return all;
  // Two of the three sizes are the sequence length: the pair that the triangle halves.
  const double seq = static_cast<double>(m == n || m == k ? m : n);
  return all * (seq + 1) / (2 * seq);
}

std::vector<MatrixProduct> matrix_products(const ModelShape& model, int64_t batch, int64_t seq,
                                           Attention attention, Checkpointing checkpointing,
                                           bool fused_attention) {
  STRETTO_CHECK(model.heads > 0 && model.hidden % model.heads == 0, "{} hidden, {} heads",
                model.hidden, model.heads);
  STRETTO_CHECK(batch > 0 && seq > 0, "batch {}, sequence {}", batch, seq);
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

const char* name_of(Product product) {
  constexpr const char* kNames[] = {"qkv", "scores", "values", "proj", "up", "down", "head"};
  return kNames[static_cast<int>(product)];
}

const char* name_of(Phase phase) {
  constexpr const char* kNames[] = {"forward", "backward", "recompute"};
  return kNames[static_cast<int>(phase)];
}

double FlopsSplit::total() const {
  double sum = other;
  for (double flops : product) sum += flops;
  return sum;
}

double FlopsSplit::without_attention() const {
  double sum = other;
  for (int i = 0; i < kProducts; ++i) {
    if (!is_attention(static_cast<Product>(i))) sum += product[static_cast<size_t>(i)];
  }
  return sum;
}

}  // namespace stretto
