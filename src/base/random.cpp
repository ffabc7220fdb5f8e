#include "base/random.h"

#include <algorithm>
#include <bit>
#include <numbers>

#include "base/normal_pairs.h"

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

void CounterRng::fill_pairs(float* even_odd, uint64_t first, size_t pairs) const {
  double u[kNormalPairs], angle[kNormalPairs], even[kNormalPairs], odd[kNormalPairs];
  const size_t last = pairs / kNormalStep * kNormalStep,
               rest = std::min(kNormalStep, kNormalPairs - last);
  std::fill_n(u + last, rest, 1.0);
  std::fill_n(angle + last, rest, 0.0);
  for (size_t i = 0; i < pairs; ++i) {
    const Pair p = philox(seed_, first + i, stream_);
    // In (0, 1], so that the logarithm is finite.
    u[i] = (static_cast<double>(p.a >> 11) + 1.0) * 0x1p-53;
    angle[i] = static_cast<double>(p.b >> 11) * (0x1p-53 * 2.0 * std::numbers::pi);
  }
  normal_pairs(even, odd, u, angle, pairs);
  for (size_t i = 0; i < pairs; ++i) {
    even_odd[2 * i] = static_cast<float>(even[i]);
    even_odd[2 * i + 1] = static_cast<float>(odd[i]);
  }
}

float CounterRng::normal(uint64_t index) const {
  float pair[2];
  fill_pairs(pair, index / 2, 1);
  return pair[index % 2];
}

void CounterRng::fill_normal(float* out, uint64_t begin, size_t count, float scale) const {
  float drawn[2 * kNormalPairs];
  for (const uint64_t end = begin + count; begin < end;) {
    const uint64_t pair = begin / 2, stop = std::min((end + 1) / 2, pair + kNormalPairs);
    fill_pairs(drawn, pair, stop - pair);
    for (; begin < std::min(end, 2 * stop); ++begin) *out++ = scale * drawn[begin - 2 * pair];
  }
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
  // The network permutes the smallest even number of bits that can hold size - 1; results outside
  // [0, size) are permuted again until one is inside.
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
