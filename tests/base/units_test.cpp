#include "base/units.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace stretto {
namespace {

TEST(Units, Parse) {
  EXPECT_EQ(parse_count("2M"), 2000000);
  EXPECT_EQ(parse_count("64k"), 64000);
  EXPECT_EQ(parse_count("1.5k"), 1500);
  EXPECT_EQ(parse_count("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parse_bytes("80GiB"), 80ll << 30);
  EXPECT_EQ(parse_bytes("40GB"), 40000000000ll);
  EXPECT_DOUBLE_EQ(parse_seconds("30min"), 1800);
  EXPECT_DOUBLE_EQ(parse_seconds("500ms"), 0.5);
}

TEST(Units, RefusesWhatItCannotRead) {
  for (const char* bad :
       {"", "M", "2X", "1e400", "nan", "inf", "1.5", "99999999999999999999", "2 M"}) {
    EXPECT_THROW(parse_count(bad), Error) << bad;
  }
  EXPECT_THROW(parse_bytes("80 GiB"), Error);
  EXPECT_THROW(parse_seconds("3 days"), Error);
}

TEST(Units, Format) {
  EXPECT_EQ(with_commas(124439808), "124,439,808");
  EXPECT_EQ(with_commas(-1000), "-1,000");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(counted(1, "token"), "1 token");
  EXPECT_EQ(counted(0, "token"), "0 tokens");
  EXPECT_EQ(counted(2, "micro-batch"), "2 micro-batches");
  EXPECT_EQ(format_bytes(80.0 * (1ll << 30)), "80.00 GiB");
  EXPECT_EQ(format_count(124439808), "124.4M");
  EXPECT_EQ(format_digits(0.123456, 4), "0.1235");
  EXPECT_EQ(format_digits(999.4, 3), "999");
  EXPECT_EQ(format_digits(999.6, 3), "1000");
  EXPECT_EQ(format_digits(1376.2, 3), "1376");
  EXPECT_EQ(format_seconds(59.996), "60.00 s");
  EXPECT_EQ(format_seconds(123), "2 min 03 s");
  EXPECT_EQ(format_seconds(3599.9), "1 h 00 min");
}

// "-0 %" is a sign without a meaning.
TEST(Units, ChangesHaveASignUnlessTheyRoundToNothing) {
  EXPECT_EQ(format_change(0.05, 0), "+5 %");
  EXPECT_EQ(format_change(-0.0031, 1), "-0.3 %");
  EXPECT_EQ(format_change(-0.0031, 0), "0 %");
  EXPECT_EQ(format_change(0.0004, 1), "0.0 %");
  EXPECT_EQ(format_change(0.1, 1), "+10.0 %");
}

}  // namespace
}  // namespace stretto
