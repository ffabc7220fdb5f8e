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

float CounterRng::normal(uint64_t index) const {
  const Pair p = philox(seed_, index, stream_);
  // Box-Muller in double; u1 in (0, 1] keeps the logarithm finite.
  const double u1 = (static_cast<double>(p.a >> 11) + 1.0) * 0x1p-53;
  const double u2 = static_cast<double>(p.b >> 11) * 0x1p-53;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u1)) *
                            std::cos(2.0 * std::numbers::pi * u2));
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
