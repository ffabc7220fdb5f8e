// The one place where host transports add numbers. It adds in rank order, so that every transport
// gives the same bits.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "comm/comm.h"

namespace stretto {

// out[i] = in[0][i] op in[1][i] op ... op in[n-1][i]. `out` may be any of the inputs.
void ordered_reduce(DType type, ReduceOp op, void* out, const void* const* in, int n,
                    int64_t count);

// Address of an element of a buffer whose type is known only at run time.
inline const void* at(const void* base, int64_t element, DType type) {
  return static_cast<const char*>(base) + static_cast<size_t>(element) * dtype_size(type);
}
inline void* at(void* base, int64_t element, DType type) {
  return static_cast<char*>(base) + static_cast<size_t>(element) * dtype_size(type);
}

}  // namespace stretto
