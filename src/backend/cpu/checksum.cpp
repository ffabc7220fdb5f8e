#include "base/checksum.h"

#include <atomic>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/pieces.h"

namespace stretto {
namespace {

template <typename Word>
uint64_t sum_of(const Word* words, int64_t begin, int64_t end) {
  uint64_t sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += checksum_term(words[i], static_cast<uint64_t>(i));
  return sum;
}

}  // namespace

void CpuBackend::do_checksum(Tensor sum, ConstTensor values) {
  std::atomic<uint64_t> total = 0;
  for_ranges(threads_, values.count(), kPieceElements, [&](int64_t begin, int64_t end) {
    total += dtype_size(values.dtype()) == 4
                 ? sum_of(static_cast<const uint32_t*>(values.data()), begin, end)
                 : sum_of(static_cast<const uint16_t*>(values.data()), begin, end);
  });
  const uint64_t bits = total;
  std::memcpy(sum.data(), &bits, sizeof(bits));
}

}  // namespace stretto
