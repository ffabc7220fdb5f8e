// Communicators for device memory over a host transport: operands travel through host buffers.
// Slow, and works for any number of ranks on one GPU, where NCCL refuses; it also lets one rank
// alone talk to itself in device memory.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "comm/comm.h"

namespace stretto {

// Both arguments must outlive the result. Any backend will do: tests put one with host memory in
// the place of a device.
std::unique_ptr<Comm> make_device_comm(Comm& host, Backend& backend);

}  // namespace stretto
