#include "base/split_f32.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace stretto {
namespace {

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

// What is half-way moves to the even neighbour's side, so that it rounds as it did. Every lower
// half with upper halves from all over: zeros, subnormals, odd and even, the largest.
TEST(SplitF32, HalvesMakeUpTheValue) {
  for (const uint32_t high : {0x0000u, 0x0001u, 0x3f80u, 0x3f81u, 0x3fffu, 0x7f7fu, 0x8000u,
                              0x8001u, 0xbf80u, 0xc0ffu, 0xff7fu}) {
    for (uint32_t low = 0; low < 0x10000u; ++low) {
      const float x = std::bit_cast<float>(high << 16 | low);
      const SplitF32 halves = split(x);
      const bool tie = low == 0x8000u;
      const uint32_t moved = !tie ? 0u : high % 2 == 0 ? ~0u : 1u;
      ASSERT_EQ(bits_of(join(halves)), bits_of(x) + moved) << high << " " << low;
      ASSERT_EQ(halves.high.bits, to_bf16(x).bits) << high << " " << low;
    }
  }
}

TEST(SplitF32, InfinityAndWhatIsNotANumberStaySo) {
  for (const uint32_t bits : {0x7f800000u, 0xff800000u}) {
    EXPECT_EQ(bits_of(join(split(std::bit_cast<float>(bits)))), bits);
  }
  for (const uint32_t bits : {0x7fc00000u, 0x7fffffffu, 0x7f808000u, 0xffc08000u, 0xffffffffu}) {
    const SplitF32 halves = split(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(to_float(halves.high))) << bits;
    EXPECT_TRUE(std::isnan(join(halves))) << bits;
  }
}

}  // namespace
}  // namespace stretto
