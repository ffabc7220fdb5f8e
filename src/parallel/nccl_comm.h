// Ranks with a GPU each talk through NCCL, on streams of their own; host memory is not touched.
// MPI, or the threads of one process, boot it and carry what is small and lives on the host.
//
// wait() makes the compute lane wait, not the host. Sums follow NCCL's own order, which is fixed
// for a given number of ranks and size; those that begin with what `out` holds (Accumulate::yes:
// ZeRO 2 and 3, deterministic) are taken in rank order, as on the host.
//
// Messages go over NCCL between neighbours of a ring, and there messages with tags of one parity
// (pipelines: even forward, odd backward) must be received in the order in which they are sent.
// NCCL has no tags, and every pipeline schedule keeps that order. All others go by way of the host.
#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"
#include "comm/comm.h"

namespace stretto {

enum class NcclUse { automatic, required };

// Whether the ranks of `world` use NCCL: with a GPU each, yes; where some share one, no, or an
// Error if it is required. Throws, on all ranks alike, where NCCL would be used and cannot be
// opened. Collective.
bool wants_nccl(Comm& world, Backend& backend, NcclUse use);

// Both arguments must outlive the result. Collective. `ring`: messages go over NCCL, see above.
std::unique_ptr<Comm> make_nccl_comm(Comm& host, Backend& backend, bool ring);

// Ends what those of them that are NCCL's have queued, whose peers may never come; they must not be
// used again. Takes two seconds at most.
void let_go_of_nccl(std::span<Comm* const> comms);

}  // namespace stretto
