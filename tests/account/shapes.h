// Shapes that the accounting tests share, and a generator of arbitrary ones.
#pragma once

#include <rapidcheck.h>

#include "account/model_shape.h"
#include "account/run_shape.h"

namespace stretto::testing {

inline ModelShape gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t vocab,
                      int64_t positions) {
  ModelShape shape;
  shape.layers = layers;
  shape.hidden = hidden;
  shape.heads = heads;
  shape.vocab = vocab;
  shape.positions = positions;
  shape.ffn = 4 * hidden;
  return shape;
}

inline ModelShape arbitrary_shape() {
  const int64_t heads = *rc::gen::inRange<int64_t>(1, 9);
  ModelShape shape =
      gpt(*rc::gen::inRange<int64_t>(1, 7), heads * *rc::gen::inRange<int64_t>(1, 17), heads,
          *rc::gen::inRange<int64_t>(1, 999), *rc::gen::inRange<int64_t>(1, 99));
  shape.ffn = *rc::gen::inRange<int64_t>(1, 300);
  shape.biases = Biases::all_or_none(*rc::gen::arbitrary<bool>());
  shape.tied_embedding = *rc::gen::arbitrary<bool>();
  shape.position_kind = *rc::gen::arbitrary<bool>() ? Positions::learned : Positions::alibi;
  return shape;
}

// The parameters of a GPT, stated once more and by hand.
inline int64_t parameters_by_formula(const ModelShape& s) {
  const int64_t c = s.hidden, f = s.ffn;
  const bool bias = s.biases == Biases::all_or_none(true);
  const int64_t norm = bias ? 2 * c : c;
  const int64_t biases = bias ? 3 * c + c + f + c : 0;
  const int64_t layer = 4 * c * c + 2 * c * f + biases + 2 * norm;
  const int64_t positions = s.position_kind == Positions::learned ? s.positions * c : 0;
  const int64_t tables = s.tied_embedding ? 1 : 2;
  return tables * s.vocab * c + positions + s.layers * layer + norm;
}

inline Checkpointing arbitrary_checkpointing() {
  return *rc::gen::element(Checkpointing::none, Checkpointing::gelu, Checkpointing::selective,
                           Checkpointing::full);
}

}  // namespace stretto::testing
