// The contract of every transport, through host staging; a cpu backend stands in for the device.
#include "parallel/device_comm.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "comm/contract.h"
#include "comm/threads.h"

namespace stretto {
namespace {

// The flight recorder shows each call twice, as ours and as the host transport's: left out here.
std::vector<contract::Named> staged_cases() {
  std::vector<contract::Named> cases = contract::cases();
  std::erase_if(cases, [](const contract::Named& each) {
    return std::string_view(each.name) == "RecorderKnowsTheLastCalls";
  });
  return cases;
}

class DeviceCommContract : public testing::TestWithParam<contract::Named> {};

TEST_P(DeviceCommContract, HoldsForOneToFourRanks) {
  for (int n = 1; n <= 4; ++n) {
    run_thread_ranks(n, [](Comm& host) {
      auto backend = make_cpu_backend(1);
      GetParam().run(*make_device_comm(host, *backend));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, DeviceCommContract, testing::ValuesIn(staged_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stretto
