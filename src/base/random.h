// Counter-based random numbers: a value is a pure function of (seed, stream, index). So any shard
// of a tensor draws exactly the numbers of its slice, on any rank and thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stretto {

class CounterRng {
 public:
  CounterRng(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  uint64_t bits(uint64_t index) const;  // 64 random bits
  float uniform(uint64_t index) const;  // in [0, 1), 24 bits
  float normal(uint64_t index) const;   // standard normal; many at once: fill_normal
  void fill_normal(float* out, uint64_t begin, size_t count, float scale) const;  // index begin...

 private:
  // One draw of 128 bits gives the normals of indices 2 i and 2 i + 1.
  void fill_pairs(float* even_odd, uint64_t first, size_t pairs) const;

  uint64_t seed_;
  uint64_t stream_;
};

// A stream number from a name ("h.3.attn.qkv.weight"): FNV-1a, stable across platforms.
uint64_t stream_of(std::string_view name);

// A pseudo-random permutation of [0, size), applied to `index`: a Feistel network with cycle
// walking, so the order of a whole epoch takes no memory.
uint64_t permute(uint64_t index, uint64_t size, uint64_t seed, uint64_t stream);

}  // namespace stretto
