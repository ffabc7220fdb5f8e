// Memory for the small objects of each call: requests, operations, messages. Freed blocks are kept
// by size for the next object, so a step of a kind that has run before allocates nothing from the
// heap. A block may be given back by another thread than the one that took it.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace stretto {

void* take_block(size_t bytes);
void give_block(void* block, size_t bytes) noexcept;  // `bytes`: as it was taken

// Makes standard containers use these blocks.
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
