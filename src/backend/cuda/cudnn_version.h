// Which versions of cuDNN are used, as a pure function that tests can ask.
#pragma once

#include <cstddef>
#include <string>

namespace stretto::cuda {

// By the number that cudnnGetVersion() returns.
std::string cudnn_version_text(size_t version);

// Why this version's attention is not used; empty: it is.
std::string cudnn_refusal(size_t version);

}  // namespace stretto::cuda
