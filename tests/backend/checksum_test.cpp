#include "base/checksum.h"

#include <cstring>

#include "support/ops.h"
#include "support/threads.h"

namespace stretto::test {
namespace {

uint64_t checksum(ConstTensor values) {
  const Operand sum(DType::i32, {2});
  cpu().checksum(sum, values);
  EXPECT_TRUE(sum.guards_intact());
  uint64_t bits = 0;
  std::memcpy(&bits, sum.tensor().data(), sizeof(bits));
  return bits;
}

uint64_t reference(ConstTensor values) {
  const size_t size = dtype_size(values.dtype());
  uint64_t sum = 0;
  for (int64_t i = 0; i < values.count(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, static_cast<const char*>(values.data()) + i * static_cast<int64_t>(size),
                size);
    sum += checksum_term(bits, static_cast<uint64_t>(i));
  }
  return sum;
}

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::i32, DType::u16};

TEST(Checksum, IsTheSumOfItsTerms) {
  for (const DType type : kTypes) {
    for (const int64_t n : {0, 1, 2, 15, 16, 1009, 40000, 100001}) {
      SCOPED_TRACE(fmt::format("{} {}", dtype_name(type), n));
      const Operand values = Operand::random(type, {n}, 1, 100);
      EXPECT_EQ(checksum(values), reference(values.tensor()));
    }
  }
}

TEST(Checksum, OneBitChangesIt) {
  for (const DType type : kTypes) {
    const int64_t n = 40000;
    const Operand values = Operand::random(type, {n}, 2, 100);
    auto* bytes = static_cast<uint8_t*>(values.tensor().data());
    const uint64_t before = checksum(values);
    for (const int64_t byte : {int64_t{0}, int64_t{1}, int64_t{12345}, 2 * n - 1}) {
      for (const uint8_t bit : {uint8_t{1}, uint8_t{128}}) {
        bytes[byte] ^= bit;
        EXPECT_NE(checksum(values), before) << dtype_name(type) << " byte " << byte;
        bytes[byte] ^= bit;
      }
    }
    EXPECT_EQ(checksum(values), before);
  }
}

TEST(Checksum, KnowsTheOrder) {
  for (const DType type : kTypes) {
    const Operand values(type, {4}, {1, 2, 3, 4});
    for (const Values& other : {Values{2, 1, 3, 4}, Values{4, 2, 3, 1}, Values{2, 0, 4, 4}}) {
      EXPECT_NE(checksum(values), checksum(Operand(type, {4}, other)));
    }
  }
}

}  // namespace
}  // namespace stretto::test
