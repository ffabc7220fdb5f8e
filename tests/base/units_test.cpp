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

TEST(Units, EveryUnitHasItsFactor) {
  const std::pair<const char*, int64_t> counts[] = {{"3", 3},
                                                    {"3k", 3000},
                                                    {"3K", 3000},
                                                    {"3M", 3000000},
                                                    {"-3", -3},
                                                    {"3G", 3000000000},
                                                    {"3B", 3000000000},
                                                    {"3T", 3000000000000},
                                                    {"2.5B", 2500000000}};
  for (const auto& [text, value] : counts) EXPECT_EQ(parse_count(text), value) << text;
  const std::pair<const char*, int64_t> sizes[] = {
      {"3", 3},           {"3B", 3},           {"3kB", 3000},          {"3KB", 3000},
      {"3MB", 3000000},   {"3GB", 3000000000}, {"3TB", 3000000000000}, {"3KiB", 3 << 10},
      {"3MiB", 3 << 20},  {"3GiB", 3ll << 30}, {"3TiB", 3ll << 40},    {"0.3kB", 300},
      {"1.0001KiB", 1024}};
  for (const auto& [text, value] : sizes) EXPECT_EQ(parse_bytes(text), value) << text;
  const std::pair<const char*, double> times[] = {{"3", 3},      {"3ms", 0.003}, {"3s", 3},
                                                  {"3min", 180}, {"3h", 10800},  {"3d", 259200},
                                                  {"0.5h", 1800}};
  for (const auto& [text, value] : times) EXPECT_DOUBLE_EQ(parse_seconds(text), value) << text;
}

// Each unit begins where the figure before it has no room.
TEST(Units, FormatsChangeAtTheirLimits) {
  const std::pair<double, const char*> counts[] = {
      {999, "999"},        {1000, "1k"}, {999400, "999.4k"},  {1e6, "1M"}, {-1e6, "-1M"},
      {999.4e6, "999.4M"}, {1e9, "1B"},  {999.4e9, "999.4B"}, {1e12, "1T"}};
  for (const auto& [value, text] : counts) EXPECT_EQ(format_count(value), text);
  const std::pair<double, const char*> sizes[] = {
      {1023, "1023 B"},     {1024, "1.00 KiB"},   {0x1p20 - 1024, "1023.00 KiB"},
      {0x1p20, "1.00 MiB"}, {0x1p30, "1.00 GiB"}, {0x1p40, "1.00 TiB"},
      {-1536, "-1.50 KiB"}};
  for (const auto& [value, text] : sizes) EXPECT_EQ(format_bytes(value), text);
  const std::pair<double, const char*> times[] = {
      {0.5e-3, "500.0 us"}, {1e-3, "1.0 ms"},      {0.5, "500.0 ms"},    {1, "1.00 s"},
      {60, "1 min 00 s"},   {3599, "59 min 59 s"}, {3600, "1 h 00 min"}, {2879 * 60, "47 h 59 min"},
      {2880 * 60, "2.0 d"}, {INFINITY, "unknown"}};
  for (const auto& [value, text] : times) EXPECT_EQ(format_seconds(value), text);
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
