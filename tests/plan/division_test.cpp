// What dp, tp and pp leave of the devices.
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/search.h"

namespace stretto::plan {
namespace {

bool is_taken(const Constraints& limits) {
  try {
    check_division(limits);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    return false;
  }
}

// 4 divides 8, but dp 4 x tp 4 is 16 devices.
TEST(Division, SizesDivideTheDevicesTogether) {
  const std::optional<int64_t> sizes[] = {std::nullopt, 1, 2, 3, 4, 6, 8};
  Constraints limits;
  for (const int64_t devices : {1, 2, 6, 8, 12, 16}) {
    limits.devices = devices;
    for (const auto& dp : sizes) {
      for (const auto& tp : sizes) {
        for (const auto& pp : sizes) {
          limits.dp = dp;
          limits.tp = tp;
          limits.pp = pp;
          const int64_t product = dp.value_or(1) * tp.value_or(1) * pp.value_or(1);
          const bool possible = dp && tp && pp ? product == devices : devices % product == 0;
          EXPECT_EQ(is_taken(limits), possible)
              << devices << " as dp " << dp.value_or(0) << " x tp " << tp.value_or(0) << " x pp "
              << pp.value_or(0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto::plan
