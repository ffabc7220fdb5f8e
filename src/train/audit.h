// Replica audit: checksums of what must be equal on several ranks are compared. Finds memory
// errors, and mistakes such as a clipping that skips a rank, before they train a different model. A
// rank that shares nothing with another reads nothing.
//
//   over dp         every parameter (ZeRO 3: nothing, each rank holds another part)
//   over dp_replica with ZeRO 3 in groups: the same part of every parameter
//   over tp         what tensor-parallel ranks replicate: norms, biases after a sum, positions
//   over the ends   the tied token table of the first and last pipeline stage
//
// With ZeRO 0, where each rank has all of it, the optimizer's state (master, moments) too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/trainer.h"

namespace stretto {

// Collective over the world. Throws Error(internal) that names tensor and ranks on every rank of a
// group whose copies differ.
void audit_replicas(Trainer& trainer);

// The positions whose digest is not the most frequent one; all of them where none is (two copies
// that differ). Separate for tests.
std::vector<int> odd_ones(const std::vector<uint64_t>& digests);

}  // namespace stretto
