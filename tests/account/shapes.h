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
  shape.bias = *rc::gen::arbitrary<bool>();
  shape.tied_embedding = *rc::gen::arbitrary<bool>();
  shape.position_kind = *rc::gen::arbitrary<bool>() ? Positions::learned : Positions::alibi;
  return shape;
}

inline Checkpointing arbitrary_checkpointing() {
  return *rc::gen::element(Checkpointing::none, Checkpointing::gelu, Checkpointing::selective,
                           Checkpointing::full);
}

}  // namespace stretto::testing
