// Communicators for device memory on top of a host transport: operands are copied through host
// buffers. Slow, but it works for any number of ranks on one GPU, where NCCL refuses, and for a
// rank that is alone.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "comm/comm.h"

namespace stretto {

// Both arguments must outlive the result. Any backend will do: tests use one with host memory.
std::unique_ptr<Comm> make_device_comm(Comm& host, Backend& backend);

}  // namespace stretto
