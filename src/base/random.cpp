#include "base/random.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace stretto {
namespace {

constexpr uint64_t kMultiplier = 0xD2B74407B1CE6E93ull;
constexpr uint64_t kWeyl = 0x9E3779B97F4A7C15ull;

struct Pair {
  uint64_t a, b;
};

// Philox 2x64 with ten rounds (Salmon et al., SC'11): passes BigCrush, needs no state.
Pair philox(uint64_t key, uint64_t c0, uint64_t c1) {
  for (int round = 0; round < 10; ++round) {
    const auto product = static_cast<unsigned __int128>(c0) * kMultiplier;
    c0 = static_cast<uint64_t>(product >> 64) ^ key ^ c1;
    c1 = static_cast<uint64_t>(product);
    key += kWeyl;
  }
  return {c0, c1};
}

}  // namespace

uint64_t CounterRng::bits(uint64_t index) const { return philox(seed_, index, stream_).a; }

float CounterRng::uniform(uint64_t index) const {
  return static_cast<float>(bits(index) >> 40) * 0x1p-24f;
}

namespace {

struct NormalPair {
  float even, odd;
};

// Box-Muller: one draw of 128 bits gives the normals of indices 2 i and 2 i + 1.
NormalPair normal_pair(uint64_t seed, uint64_t stream, uint64_t i) {
  const Pair p = philox(seed, i, stream);
  // u1 in (0, 1] keeps the logarithm finite.
  const double u1 = (static_cast<double>(p.a >> 11) + 1.0) * 0x1p-53;
  const double angle = static_cast<double>(p.b >> 11) * (0x1p-53 * 2.0 * std::numbers::pi);
  const double radius = std::sqrt(-2.0 * std::log(u1));
  return {static_cast<float>(radius * std::cos(angle)),
          static_cast<float>(radius * std::sin(angle))};
}

}  // namespace

float CounterRng::normal(uint64_t index) const {
  const NormalPair pair = normal_pair(seed_, stream_, index / 2);
  return index % 2 == 0 ? pair.even : pair.odd;
}

void CounterRng::fill_normal(float* out, uint64_t begin, size_t count, float scale) const {
  size_t i = 0;
  if (begin % 2 == 1 && count > 0) out[i++] = scale * normal(begin);
  for (; i + 1 < count; i += 2) {
    const NormalPair pair = normal_pair(seed_, stream_, (begin + i) / 2);
    out[i] = scale * pair.even;
    out[i + 1] = scale * pair.odd;
  }
  if (i < count) out[i] = scale * normal(begin + i);
}

uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  }
  return hash;
}

uint64_t permute(uint64_t index, uint64_t size, uint64_t seed, uint64_t stream) {
  if (size <= 1) return 0;
  // Domain: the smallest even number of bits that holds size - 1; walk until back inside.
  const int half = (static_cast<int>(std::bit_width(size - 1)) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t next = left ^ (philox(seed + round, right, stream).a & mask);
      left = right;
      right = next;
    }
    index = (left << half) | right;
  } while (index >= size);
  return index;
}

}  // namespace stretto
