// Memory of small objects that come and go with every call: requests, operations, messages. Freed
// blocks are kept by size for the next one, so a step that has run once takes nothing from the
// heap. Any thread may give back what another took.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace stretto {

void* take_block(size_t bytes);
void give_block(void* block, size_t bytes) noexcept;  // `bytes` as when it was taken

// The standard containers' way to the same blocks.
template <typename T>
struct Recycled {
  using value_type = T;
  static_assert(alignof(T) <= alignof(std::max_align_t));

  Recycled() = default;
  template <typename U>
  Recycled(const Recycled<U>&) {}  // NOLINT(google-explicit-constructor): allocators convert

  T* allocate(size_t count) { return static_cast<T*>(take_block(count * sizeof(T))); }
  void deallocate(T* block, size_t count) noexcept { give_block(block, count * sizeof(T)); }
  template <typename U>
  bool operator==(const Recycled<U>&) const {
    return true;
  }
};

template <typename T>
using RecycledVector = std::vector<T, Recycled<T>>;

template <typename T, typename... Args>
std::shared_ptr<T> make_recycled(Args&&... args) {
  return std::allocate_shared<T>(Recycled<T>(), std::forward<Args>(args)...);
}

}  // namespace stretto
