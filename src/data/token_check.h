// Ids that no model of this vocabulary can read: found and named.
#pragma once

#include <cstdint>
#include <span>

#include "data/token_source.h"

namespace stretto {

// Throws bad_data with file, place and id when one of `ids`, which lie at `position` of the source,
// is outside the vocabulary.
void check_ids(const TokenSource& source, int64_t vocab, std::span<const int32_t> ids,
               int64_t position);

// The same for the source, before a run that might come to such an id after days: for all of it up
// to 64 Mi tokens, else for as many of them in 256 stretches from the first token to the last. Of
// `parts` that share the work this is number `part`.
void look_over(const TokenSource& source, int64_t vocab, int part = 0, int parts = 1);

// Where the i-th of `places` begins that are spread evenly from 0 to `room`.
int64_t spread_place(int64_t i, int64_t places, int64_t room);

}  // namespace stretto
