#include "backend/cpu/host_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/units.h"

namespace stretto {
namespace {
constexpr size_t kHugePage = size_t{2} << 20;
}

Buffer allocate_host(size_t bytes, const char* label) {
  if (bytes == 0) return {};
  // Large allocations begin on a huge page, which saves TLB misses in packing and in the optimizer.
  const size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kArenaAlignment;
  if (bytes > SIZE_MAX - alignment) bytes = SIZE_MAX - alignment;  // refused below
  const size_t rounded = round_up(bytes, alignment);
  void* data = std::aligned_alloc(alignment, rounded);
  if (data == nullptr) {
    throw Error(ExitCode::out_of_memory,
                fmt::format("cannot allocate {} of host memory for {}",
                            format_bytes(static_cast<double>(bytes)), label),
                "use a smaller micro-batch, activation checkpointing, or more ranks");
  }
  if (alignment == kHugePage) madvise(data, rounded, MADV_HUGEPAGE);
  return Buffer(data, bytes, [](void* p) { std::free(p); });
}

}  // namespace stretto
