// Replica audit: checksums of what must be equal on several ranks are compared. Finds memory
// errors, and mistakes such as a clipping that skips a rank, before they train a different model. A
// rank that shares nothing with another reads nothing.
//
//   over dp         what every rank has all of: weights (ZeRO 0 to 2), optimizer's state (ZeRO 0)
//   over dp_replica what is sharded in groups: the same part of weights (ZeRO 3) and state
//   over tp         what tensor-parallel ranks replicate: norms, biases after a sum, positions
//   over the ends   the tied token table of the first and last pipeline stage
//
// The optimizer's state is its master weights and moments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/trainer.h"

namespace stretto {

// Collective over the world. Throws Error(internal) that names tensor and ranks on every rank of a
// group whose copies differ.
void audit_replicas(Trainer& trainer);

// Positions whose digest is not the most frequent one. Where no digest is the most frequent (two
// copies that differ), all positions. Declared here for tests.
std::vector<int> odd_ones(const std::vector<uint64_t>& digests);

}  // namespace stretto
