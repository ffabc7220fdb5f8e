// Against the vectors of RFC 3720, appendix B.4, and the usual check value.
#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace stretto {
namespace {

TEST(Crc32c, KnownVectors) {
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  std::string falling = rising;
  std::reverse(falling.begin(), falling.end());
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(rising), 0x46dd794eu);
  EXPECT_EQ(crc32c(falling), 0x113fdb5cu);
}

}  // namespace
}  // namespace stretto
