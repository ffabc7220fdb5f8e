#include "comm/recycle.h"

#include <bit>
#include <mutex>
#include <new>

namespace stretto {
namespace {

constexpr size_t kSmallest = 64;               // bytes; classes are powers of two from here on
constexpr size_t kLargest = size_t{64} << 10;  // larger blocks go to the heap
constexpr size_t kSlab = size_t{4} << 10;      // small blocks are cut from slabs of this size
constexpr int kClasses = 11;

struct Free {
  Free* next;
};

struct Lists {
  std::mutex mutex;
  Free* first[kClasses] = {};
};

// Never destroyed, because requests may be released while the program ends.
Lists& lists() {
  static auto* all = new Lists;
  return *all;
}

size_t class_bytes(size_t bytes) { return std::bit_ceil(bytes < kSmallest ? kSmallest : bytes); }
int class_of(size_t size) { return std::countr_zero(size) - std::countr_zero(kSmallest); }
static_assert(kSmallest << (kClasses - 1) == kLargest);

}  // namespace

void* take_block(size_t bytes) {
  if (bytes > kLargest) return ::operator new(bytes);
  const size_t size = class_bytes(bytes);
  Lists& all = lists();
  const std::lock_guard lock(all.mutex);
  Free*& first = all.first[class_of(size)];
  if (first == nullptr) {
    const size_t slab = size < kSlab ? kSlab : size;
    auto* memory = static_cast<std::byte*>(::operator new(slab));
    for (size_t at = 0; at < slab; at += size) first = new (memory + at) Free{first};
  }
  return std::exchange(first, first->next);
}

void give_block(void* block, size_t bytes) noexcept {
  if (block == nullptr) return;
  if (bytes > kLargest) {
    ::operator delete(block);
    return;
  }
  Lists& all = lists();
  const std::lock_guard lock(all.mutex);
  Free*& first = all.first[class_of(class_bytes(bytes))];
  first = new (block) Free{first};
}

}  // namespace stretto
