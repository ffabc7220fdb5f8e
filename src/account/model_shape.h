// The shape of a decoder: what parameters, FLOPs and memory depend on, and nothing else. It can
// describe more than the engine runs; `unsupported` in config/rules_model.cpp names what it cannot.
// Letters, everywhere: L layers, C hidden, H heads, K key-value heads, D head size, V vocabulary,
// P positions, T sequence, B batch, F feed-forward width.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/gelu.h"

namespace stretto {

enum class Positions { learned, alibi, rope, none };
enum class Norm { layer, rms };
// What stands between the two products of an MLP. The gated kinds multiply the activation of one
// half of the first product by the other half.
enum class Mlp { gelu_tanh, gelu, relu, relu2, swiglu, geglu };
// Where the norms of a layer stand: before each branch, after it, on both sides, or before two
// branches that read the same stream.
enum class Order { pre, post, sandwich, parallel };
// Norms of queries and keys: of each head, or over the heads' whole width.
enum class QkNorm { none, head, width };

constexpr bool gated(Mlp mlp) { return mlp == Mlp::swiglu || mlp == Mlp::geglu; }
constexpr Gelu gelu_of(Mlp mlp) {
  return mlp == Mlp::gelu_tanh ? Gelu::tanh : mlp == Mlp::gelu ? Gelu::exact : Gelu::none;
}

struct Biases {
  bool norm = true, qkv = true, proj = true, mlp = true, head = false;

  static constexpr Biases all_or_none(bool all) { return {all, all, all, all, false}; }
  bool operator==(const Biases&) const = default;
};

// A mixture of experts in place of the MLP. `count` 0: none.
struct Experts {
  int64_t count = 0;
  int64_t per_token = 0;
  int64_t ffn = 0;         // width of one expert
  int64_t shared_ffn = 0;  // width of what every token passes through, 0: nothing

  bool operator==(const Experts&) const = default;
};

// What may differ from layer to layer.
struct LayerKind {
  int64_t window = 0;    // tokens that a query sees, itself included; 0: all before it
  bool experts = false;  // the model's experts instead of its MLP

  bool operator==(const LayerKind&) const = default;
};

struct ModelShape {
  std::string name = "custom";
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t vocab = 0;
  int64_t positions = 0;  // rows of the learned position table, else the longest sequence
  int64_t ffn = 0;        // 4 * hidden unless said otherwise
  int64_t kv_heads = 0;   // 0: as many as heads
  int64_t head_dim = 0;   // 0: hidden / heads
  Positions position_kind = Positions::learned;
  Norm norm = Norm::layer;
  double norm_eps = 1e-5;
  Order order = Order::pre;
  QkNorm qk_norm = QkNorm::none;
  Mlp mlp = Mlp::gelu_tanh;
  Biases biases = {};
  bool tied_embedding = true;  // the output head is the token embedding
  Experts experts = {};
  std::vector<LayerKind> pattern = {};  // repeats over the layers; empty: all alike

  int64_t head_size() const { return head_dim > 0 ? head_dim : heads > 0 ? hidden / heads : 0; }
  int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  int64_t q_width() const { return head_dim > 0 ? heads * head_dim : hidden; }
  int64_t kv_width() const { return kv_heads > 0 ? kv_heads * head_size() : q_width(); }
  // Columns of the packed input of attention: queries, keys, values.
  int64_t qkv_width() const { return q_width() + 2 * kv_width(); }
  LayerKind kind(int64_t layer) const {
    return pattern.empty() ? LayerKind{} : pattern[static_cast<size_t>(layer) % pattern.size()];
  }
  bool operator==(const ModelShape&) const = default;
};

}  // namespace stretto
