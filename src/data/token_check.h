// Finds token ids that a model of this vocabulary cannot read.
#pragma once

#include <cstdint>
#include <span>

#include "data/token_source.h"

namespace stretto {

// Throws bad_data with file, place and id if one of `ids`, which begin at `position` of the source,
// is outside the vocabulary.
void check_ids(const TokenSource& source, int64_t vocab, std::span<const int32_t> ids,
               int64_t position);

// The same for a source, before a run that might otherwise meet such an id only after days: checks
// all of it up to 64 Mi tokens, else as many tokens in 256 stretches spread from the first token to
// the last. The work may be divided into `parts`, of which this call does number `part`.
void look_over(const TokenSource& source, int64_t vocab, int part = 0, int parts = 1);

// Where place `i` begins if `places` places are spread evenly from 0 to `room`.
int64_t spread_place(int64_t i, int64_t places, int64_t room);

}  // namespace stretto
