// The contract's tensors lie in host memory: this carries each call's operands to the device, makes
// the call there, and brings the result back.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "comm/comm.h"

namespace stretto::test {

std::unique_ptr<Comm> make_host_face(std::unique_ptr<Comm> device, Backend& backend);

}  // namespace stretto::test
