#include "backend/cpu/workspace.h"

#include <algorithm>

#include "backend/cpu/attention.h"
#include "backend/cpu/gemm_implementations.h"
#include "backend/cpu/pieces.h"
#include "base/ceil_div.h"

namespace stretto {
namespace {

class Needs {
 public:
  Needs(const RankShape& shape, int threads)
      : types_(shape.types()), train_(shape.train), threads_(threads) {}

  void shared(int64_t bytes) { all_.shared = std::max(all_.shared, bytes); }
  void worker(int64_t bytes) { all_.worker = std::max(all_.worker, bytes); }

  // A linear layer from k to n values over `rows` rows, with its two gradients.
  void linear(int64_t rows, int64_t n, int64_t k) {
    product(rows, n, k, types_.compute, false, true);
    if (!train_) return;
    product(rows, k, n, types_.compute, false, false);
    product(n, k, rows, types_.gradient, true, false);
    shared((ceil_div(rows, kBiasRows) + 1) * std::max(n, k) * 4);
  }

  const Workspace& all() const { return all_; }

 private:
  void product(int64_t m, int64_t n, int64_t k, DType c, bool a_turned, bool b_turned) {
    GemmArgs args;
    args.m = m;
    args.n = n;
    args.k = k;
    args.a = {nullptr, types_.compute, 0, a_turned};
    args.b = {nullptr, types_.compute, 0, b_turned};
    args.c = {nullptr, c, 0};
    // Forward pass and input gradient have an epilogue.
    args.epilogue.gelu = a_turned ? Gelu::none : Gelu::tanh;
    const GemmScratch need = gemm_scratch(args, threads_);
    shared(need.shared);
    worker(need.worker);
  }

  PrecisionTypes types_;
  bool train_;
  int threads_;
  Workspace all_;
};

}  // namespace

Workspace cpu_workspace(const RankShape& s, int threads) {
  const int64_t n = s.tokens(), C = s.model.hidden, heads = s.model.heads / s.tp;
  Needs needs(s, threads);
  for (const ProductSpec& product : layer_table(s.model, 0).products) {
    needs.linear(n, product.n_of(s.tp), product.k_of(s.tp));
  }
  if (s.last_stage) needs.linear(s.loss_rows(), padded_vocab(s.model, s.tp) / s.tp, C);
  AttentionOptions options;
  options.heads = heads;
  const ConstTensor qkv(nullptr, s.types().compute,
                        {s.micro_batch, s.seq_len, s.model.qkv_width() / s.tp});
  const AttentionShape attention(qkv, options);
  if (amx_is_native() && supports_amx_attention(qkv, options)) {
    needs.worker(attention_amx_bytes(attention));
  } else {
    needs.worker(attention_forward_floats(attention) * 4);
    if (s.train) needs.worker(attention_backward_floats(attention) * 4);
  }
  needs.shared(kMostNormPieces * 2 * C * 4);
  needs.shared(n * 8);                    // places of the embedding's gradient
  needs.shared(3 * kMostStatPieces * 8);  // gradient statistics
  Workspace all = needs.all();
  all.worker = static_cast<int64_t>(arena_round(static_cast<size_t>(all.worker)));
  all.workers = threads;
  return all;
}

}  // namespace stretto
