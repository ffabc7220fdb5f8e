// Lets the operator tests, whose operands lie in host memory, run on a device backend: each
// operator copies its operands to the device (with guard bytes around them), runs there, and copies
// back.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace stretto::test {

std::unique_ptr<Backend> make_staged_backend(std::unique_ptr<Backend> device);

// The backend under test: cpu with `threads`, or, with STRETTO_TEST_DEVICE=cuda in the environment,
// the first GPU behind a staging wrapper.
std::unique_ptr<Backend> make_backend(int threads);
bool testing_cuda();

}  // namespace stretto::test
