// Who writes the gradient of the token table on a rank, and in which order: a tied head overwrites
// it or adds to it, then the embedding's backward pass adds to it.
#pragma once

#include "account/memory.h"

namespace stretto {

struct TableGradient {
  explicit TableGradient(const RankShape& shape)
      : by_head(shape.last_stage && shape.model.tied_embedding), by_embedding(shape.first_stage) {}

  bool by_head;
  bool by_embedding;

  // The first writer of a micro-batch overwrites what a head writes; the embedding only adds.
  bool starts_at_zero() const { return !by_head; }
  // The last writer closes the unit. The embedding, where it writes, is last.
  bool head_closes() const { return by_head && !by_embedding; }
};

}  // namespace stretto
