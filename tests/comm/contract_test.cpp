// The contract over the transports that need no launcher.
#include "comm/contract.h"

#include <gtest/gtest.h>

#include "comm/threads.h"

namespace stretto {
namespace {

class SelfContract : public testing::TestWithParam<contract::Named> {};

TEST_P(SelfContract, Holds) { GetParam().run(*make_self_comm()); }

INSTANTIATE_TEST_SUITE_P(Cases, SelfContract, testing::ValuesIn(contract::cases()),
                         [](const auto& each) { return each.param.name; });

class ThreadsContract : public testing::TestWithParam<contract::Named> {};

TEST_P(ThreadsContract, HoldsForOneToFiveRanks) {
  for (int n = 1; n <= 5; ++n) run_thread_ranks(n, GetParam().run);
}

INSTANTIATE_TEST_SUITE_P(Cases, ThreadsContract, testing::ValuesIn(contract::cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stretto
