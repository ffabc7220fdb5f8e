// The shape of a GPT: what the parameter, FLOP and memory formulas need, and nothing else. Letters,
// everywhere: L layers, C hidden, H heads, D head size, V vocabulary, P positions, T sequence, B
// batch, F feed-forward width.
#pragma once

#include <cstdint>
#include <string>

#include "base/gelu.h"

namespace stretto {

enum class Positions { learned, alibi };

struct ModelShape {
  std::string name = "custom";
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t vocab = 0;
  int64_t positions = 0;  // rows of the learned position table; the longest sequence with ALiBi
  int64_t ffn = 0;        // 4 * hidden unless said otherwise
  Positions position_kind = Positions::learned;
  bool bias = true;            // linear and LayerNorm biases
  bool tied_embedding = true;  // the output head is the token embedding
  Gelu gelu = Gelu::tanh;

  int64_t head_size() const { return heads > 0 ? hidden / heads : 0; }
  bool operator==(const ModelShape&) const = default;
};

}  // namespace stretto
