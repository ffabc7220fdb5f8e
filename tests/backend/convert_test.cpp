#include <cmath>

#include "support/ops.h"
#include "support/threads.h"

namespace stretto::test {
namespace {

constexpr DType kFloatTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f8e4m3, DType::f8e5m2};

// All interesting floats: every exponent with mantissas around the rounding points of all formats.
Values interesting_floats() {
  Values out = {0.0, -0.0, INFINITY, -INFINITY, NAN, 448, 464, 465, 57344, 61440, 65504, 65520};
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (const uint32_t mantissa :
         {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0x18000u, 0x7ffffu,
          0x80000u, 0x80001u, 0x100000u, 0x180000u, 0x300000u, 0x400000u, 0x7fffffu}) {
      const float x = std::bit_cast<float>(exponent << 23 | mantissa);
      out.push_back(x);
      out.push_back(-x);
    }
  }
  return out;
}

TEST(Convert, EqualsTheScalarConversions) {
  const Values floats = interesting_floats();
  const auto n = static_cast<int64_t>(floats.size());
  for (const DType from : kFloatTypes) {
    for (const DType to : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} to {}", dtype_name(from), dtype_name(to)));
      const Operand src(from, {n}, floats), dst = Operand::output(to, {n});
      cpu().convert(dst, src);
      const Values got = dst.values(), expected = Operand(to, {n}, src.values()).values();
      for (size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(expected[i])) {
          EXPECT_TRUE(std::isnan(got[i])) << floats[i];
        } else {
          EXPECT_EQ(got[i], expected[i]) << floats[i];
          EXPECT_EQ(std::signbit(got[i]), std::signbit(expected[i])) << floats[i];
        }
      }
      EXPECT_TRUE(dst.guards_intact());
    }
  }
}

TEST(Convert, EveryCodeOfSmallTypesSurvivesTheRoundTrip) {
  for (const DType type : {DType::bf16, DType::f16, DType::f8e4m3, DType::f8e5m2}) {
    const int64_t codes = int64_t{1} << (8 * dtype_size(type));
    const Operand src(type, {codes}), wide = Operand::output(DType::f32, {codes});
    const Operand back = Operand::output(type, {codes});
    for (int64_t code = 0; code < codes; ++code) {
      if (dtype_size(type) == 1) {
        src.tensor().as<uint8_t>()[code] = static_cast<uint8_t>(code);
      } else {
        src.tensor().as<uint16_t>()[code] = static_cast<uint16_t>(code);
      }
    }
    cpu().convert(wide, src);
    cpu().convert(back, wide);
    const Values before = src.values(), middle = wide.values(), after = back.values();
    for (size_t i = 0; i < before.size(); ++i) {
      if (std::isnan(before[i])) {
        EXPECT_TRUE(std::isnan(middle[i]) && std::isnan(after[i])) << i;
      } else {
        EXPECT_EQ(middle[i], before[i]) << dtype_name(type) << " code " << i;
        const bool saturates = type == DType::f8e5m2 && std::isinf(before[i]);
        EXPECT_EQ(after[i], saturates ? std::copysign(57344.0, before[i]) : before[i]) << i;
      }
    }
  }
}

TEST(Convert, OddCountsAndThreads) {
  for (const int64_t n : {1, 5, 31, 33, 16385, 50021}) {
    const Operand src = Operand::random(DType::f32, {n}, 9);
    expect_same_for_all_threads([&](Backend& backend) {
      const Operand b = Operand::output(DType::bf16, {n}), h = Operand::output(DType::f16, {n});
      backend.convert(b, src);
      backend.convert(h, src);
      EXPECT_TRUE(b.same_bits(src.as(DType::bf16)));
      EXPECT_TRUE(h.same_bits(src.as(DType::f16)));
      EXPECT_TRUE(b.guards_intact() && h.guards_intact());
      return std::vector<Operand>{b, h};
    });
  }
}

TEST(Convert, RefusesIntegers) {
  const Operand src = Operand::zeros(DType::i32, {4}), dst = Operand::output(DType::f32, {4});
  EXPECT_ANY_THROW(cpu().convert(dst, src));
}

}  // namespace
}  // namespace stretto::test
