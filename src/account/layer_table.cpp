#include "account/layer_table.h"

#include <cmath>

namespace stretto {
namespace {

constexpr double kInitStd = 0.02;

class Builder {
 public:
  Builder(const ModelShape& model, int64_t layer)
      : m_(model),
        kind_(model.kind(layer)),
        // The last product of each branch starts with smaller weights, so that the variance of the
        // residual stream does not grow with depth (GPT-2).
        residual_std_(kInitStd / std::sqrt(2.0 * static_cast<double>(model.layers))) {}

  LayerTable build() {
    t_.attention_width = m_.q_width();
    t_.window = kind_.window;
    add_attention();
    if (kind_.experts) {
      add_experts();
    } else {
      add_mlp();
    }
    add_saved();
    add_traffic();
    return std::move(t_);
  }

 private:
  void vector(Weight role, int64_t rows, Cut cut, Init init) {
    t_.weights.push_back({role, rows, 1, cut, init, 0});
  }
  void norm(Weight weight, Weight bias, int64_t width) {
    vector(weight, width, Cut::none(), Init::ones);
    if (m_.biases.norm && m_.norm == Norm::layer) vector(bias, width, Cut::none(), Init::zeros);
  }
  void matrix(Weight role, int64_t n, int64_t k, Cut cut) {
    const double std = cut.along == Cut::Along::columns ? residual_std_ : kInitStd;
    t_.weights.push_back({role, n, k, cut, Init::normal, std});
  }
  // A product with its weight. A bias is cut like the rows; every rank holds all of it where the
  // columns are cut.
  void linear(Product kind, Weight weight, Weight bias, bool biased, int64_t n, int64_t k, Cut cut,
              bool repeated) {
    matrix(weight, n, k, cut);
    if (biased) {
      vector(bias, n, cut.along == Cut::Along::rows ? cut : Cut::none(), Init::zeros);
    }
    t_.products.push_back({kind, n, k, cut.along, 1, repeated});
  }

  // Rows of the first product of an MLP, and how they are cut: gate and up are blocks of their own.
  int64_t up_rows(int64_t ffn) const { return gated(m_.mlp) ? 2 * ffn : ffn; }
  Cut up_cut(int64_t ffn) const { return gated(m_.mlp) ? Cut::rows(ffn, ffn) : Cut::rows(ffn); }

  void add_attention() {
    const int64_t C = m_.hidden, q = m_.q_width(), kv = m_.kv_width();
    norm(Weight::norm1, Weight::norm1_bias, C);
    linear(Product::qkv, Weight::qkv, Weight::qkv_bias, m_.biases.qkv, m_.qkv_width(), C,
           Cut::rows(q, kv, kv), true);
    if (m_.qk_norm != QkNorm::none) {
      const bool width = m_.qk_norm == QkNorm::width;
      norm(Weight::q_norm, Weight::q_norm_bias, width ? q : m_.head_size());
      norm(Weight::k_norm, Weight::k_norm_bias, width ? kv : m_.head_size());
    }
    linear(Product::proj, Weight::proj, Weight::proj_bias, m_.biases.proj, C, q, Cut::columns(),
           true);
    if (m_.order == Order::sandwich) norm(Weight::post1, Weight::post1_bias, C);
  }

  void add_mlp() {
    const int64_t C = m_.hidden, F = m_.ffn;
    norm(Weight::norm2, Weight::norm2_bias, C);
    linear(Product::up, Weight::up, Weight::up_bias, m_.biases.mlp, up_rows(F), C, up_cut(F), true);
    linear(Product::down, Weight::down, Weight::down_bias, m_.biases.mlp, C, F, Cut::columns(),
           false);
    if (m_.order == Order::sandwich) norm(Weight::post2, Weight::post2_bias, C);
  }

  // Matrices of all experts are stacked; a token passes through some of them.
  void add_experts() {
    const Experts& e = m_.experts;
    const int64_t C = m_.hidden, F = e.ffn;
    const auto rows = Cut::Along::rows, columns = Cut::Along::columns;
    norm(Weight::norm2, Weight::norm2_bias, C);
    matrix(Weight::router, e.count, C, Cut::none());
    t_.products.push_back({Product::up, e.count, C, Cut::Along::none, 1, true});
    matrix(Weight::expert_up, e.count * up_rows(F), C, up_cut(F));
    t_.products.push_back({Product::up, up_rows(F), C, rows, e.per_token, true});
    matrix(Weight::expert_down, e.count * C, F, Cut::columns());
    t_.products.push_back({Product::down, C, F, columns, e.per_token, false});
    if (e.shared_ffn > 0) {
      const int64_t S = e.shared_ffn;
      matrix(Weight::shared_up, up_rows(S), C, up_cut(S));
      t_.products.push_back({Product::up, up_rows(S), C, rows, 1, true});
      matrix(Weight::shared_down, C, S, Cut::columns());
      t_.products.push_back({Product::down, C, S, columns, 1, false});
    }
    if (m_.order == Order::sandwich) norm(Weight::post2, Weight::post2_bias, C);
  }

  void save(Saved slot, Extent extent, int64_t width, Checkpointing kept_up_to) {
    t_.saved.push_back({slot, extent, width, kept_up_to});
  }
  void save_statistics(Saved mean, Saved rstd) {
    if (m_.norm == Norm::layer) save(mean, Extent::statistic, 1, Checkpointing::selective);
    save(rstd, Extent::statistic, 1, Checkpointing::selective);
  }

  // What is kept longest comes first, so that each mode keeps a front part of the list.
  void add_saved() {
    const int64_t C = m_.hidden, F = kind_.experts ? expert_width() : m_.ffn;
    constexpr auto full = Checkpointing::full, selective = Checkpointing::selective;
    save(Saved::stream, Extent::stream, C, full);
    save_statistics(Saved::mean1, Saved::rstd1);
    save(Saved::qkv, Extent::sequence, m_.qkv_width(), selective);
    save(Saved::att, Extent::sequence, m_.q_width(), selective);
    save(Saved::lse, Extent::heads, m_.heads, selective);
    save(Saved::stream2, Extent::stream, C, selective);
    save_statistics(Saved::mean2, Saved::rstd2);
    save(Saved::pre, Extent::tokens, up_rows(F), selective);
    save(Saved::norm1, Extent::stream, C, Checkpointing::gelu);
    save(Saved::norm2, Extent::stream, C, Checkpointing::gelu);
    save(Saved::act, Extent::tokens, F, Checkpointing::none);
    t_.inner = {{Inner::dpre, Extent::tokens, up_rows(F), false},
                {Inner::dqkv, Extent::sequence, m_.qkv_width(), false},
                // The stream's gradient is passed on, so the branches need copies.
                {Inner::dmlp, Extent::stream, C, true},
                {Inner::dattn, Extent::stream, C, true}};
  }
  // Width of all that a token passes through.
  int64_t expert_width() const {
    return m_.experts.per_token * m_.experts.ffn + m_.experts.shared_ffn;
  }

  // Two branches, each with a gather before its first product and a sum after its last one. The
  // backward pass also gathers the inputs again, for the weights' gradients. Nothing reads the
  // MLP's sum again.
  void add_traffic() {
    t_.traffic = {
        {StreamCall::gather, Phase::forward, 2},  {StreamCall::reduce, Phase::forward, 2},
        {StreamCall::gather, Phase::backward, 4}, {StreamCall::reduce, Phase::backward, 2},
        {StreamCall::gather, Phase::repeat, 2},   {StreamCall::reduce, Phase::repeat, 1},
        {StreamCall::gather, Phase::deferred, 2}};
  }

  const ModelShape& m_;
  LayerKind kind_;
  double residual_std_;
  LayerTable t_;
};

}  // namespace

const char* name_of(Weight weight) {
  static constexpr PerWeight<const char*> kNames{{"ln1.weight",
                                                  "ln1.bias",
                                                  "attn.qkv.weight",
                                                  "attn.qkv.bias",
                                                  "attn.q_norm.weight",
                                                  "attn.q_norm.bias",
                                                  "attn.k_norm.weight",
                                                  "attn.k_norm.bias",
                                                  "attn.proj.weight",
                                                  "attn.proj.bias",
                                                  "post1.weight",
                                                  "post1.bias",
                                                  "ln2.weight",
                                                  "ln2.bias",
                                                  "mlp.up.weight",
                                                  "mlp.up.bias",
                                                  "mlp.down.weight",
                                                  "mlp.down.bias",
                                                  "moe.router.weight",
                                                  "moe.up.weight",
                                                  "moe.down.weight",
                                                  "moe.shared.up.weight",
                                                  "moe.shared.down.weight",
                                                  "post2.weight",
                                                  "post2.bias"}};
  return kNames[weight];
}

const char* name_of(Product product) {
  constexpr const char* kNames[] = {"qkv", "scores", "values", "proj", "up", "down", "head"};
  return kNames[static_cast<int>(product)];
}

const char* name_of(Saved slot) {
  constexpr const char* kNames[] = {"stream", "mean1", "rstd1", "qkv",   "att",   "lse", "stream2",
                                    "mean2",  "rstd2", "pre",   "norm1", "norm2", "act"};
  return kNames[static_cast<int>(slot)];
}

const char* name_of(Inner slot) {
  constexpr const char* kNames[] = {"dpre", "dqkv", "dmlp", "dattn"};
  return kNames[static_cast<int>(slot)];
}

LayerTable layer_table(const ModelShape& model, int64_t layer) {
  return Builder(model, layer).build();
}

}  // namespace stretto
