#include "train/cores.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <thread>

#include "base/cores.h"
#include "train/rank_plan.h"

namespace stretto {
namespace {

std::vector<int> numbers(int64_t count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(3 * i);
  return all;
}

RC_GTEST_PROP(Cores, SlicesAreAPartitionOfEqualParts, ()) {
  const int64_t count = *rc::gen::inRange(1, 200);
  const int64_t ranks = *rc::gen::inRange(1, static_cast<int>(count) + 1);
  std::vector<int> together;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const std::vector<int> slice = slice_of_rank(numbers(count), rank, ranks);
    RC_ASSERT(static_cast<int64_t>(slice.size()) >= count / ranks);
    RC_ASSERT(static_cast<int64_t>(slice.size()) <= count / ranks + 1);
    together.insert(together.end(), slice.begin(), slice.end());
  }
  RC_ASSERT(together == numbers(count));
}

TEST(Cores, TooFewForTheRanksBindNobody) {
  EXPECT_TRUE(slice_of_rank(numbers(2), 0, 3).empty());
  EXPECT_EQ(slice_of_rank(numbers(2), 1, 2), std::vector<int>{3});
}

TEST(Cores, RanksShareWhatTheProcessMayUse) {
  const CoreSet whole{numbers(16), 16}, half{numbers(8), 16}, one{numbers(1), 16};
  EXPECT_EQ(cores_per_rank(whole, 4, false), 4);
  EXPECT_EQ(cores_per_rank(half, 4, false), 2);  // taskset -c 0-7 stretto train -n 4
  EXPECT_EQ(cores_per_rank(whole, 32, false), 1);
  // Processes: mpirun bound two to each socket, or one to each core, or nobody.
  EXPECT_EQ(cores_per_rank(half, 4, true), 4);
  EXPECT_EQ(cores_per_rank(one, 2, true), 1);
  EXPECT_EQ(cores_per_rank(whole, 4, true), 4);
  // A container that may take four cores' time, on any of them.
  const CoreSet limited{numbers(16), 16, 4}, beyond{numbers(2), 16, 12};
  EXPECT_EQ(cores_per_rank(limited, 1, false), 4);
  EXPECT_EQ(cores_per_rank(limited, 2, true), 2);
  EXPECT_EQ(cores_per_rank(limited, 8, false), 1);
  EXPECT_EQ(cores_per_rank(beyond, 4, true), 2);
  // More than a bound process has cores, and less than all of them have together.
  const CoreSet bound{numbers(4), 64, 32};
  EXPECT_EQ(cores_per_rank(bound, 8, true), 4);
  EXPECT_EQ(cores_per_rank(bound, 16, true), 2);
}

TEST(Cores, ThreadsAreAsAskedFor) {
  Config config;
  config.threads = 7;
  EXPECT_EQ(threads_per_rank(config, 3), 7);
  config.threads = 0;
  EXPECT_EQ(threads_per_rank(config, 1), static_cast<int>(usable_cores()));
  EXPECT_EQ(threads_per_rank(config, 1000000), 1);
}

// As run_ranks does, on a thread of its own: the threads that a rank starts inherit it.
TEST(Cores, ARankIsBoundToItsSlice) {
  const std::vector<int> all = allowed_cores();
  Config config;
  config.device = Device::cpu;
  const auto bound_to = [&](int64_t threads, int64_t rank, int64_t ranks) {
    std::vector<int> cores;
    config.threads = threads;
    std::thread([&] {
      bind_rank(config, rank, ranks);
      cores = allowed_cores();
    }).join();
    return cores;
  };
  const auto ranks = std::ssize(all);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(bound_to(0, rank, ranks), slice_of_rank(all, rank, ranks)) << rank;
  }
  EXPECT_EQ(bound_to(ranks + 1, 0, 2), all);  // more threads than a slice has cores
  EXPECT_EQ(bound_to(1, 0, ranks + 1), all);  // too few to bind anybody
  EXPECT_EQ(allowed_cores(), all);
}

TEST(Cores, ARanksMemoryIsItsShareOfWhatTheProcessMayUse) {
  constexpr size_t kMachine = 2000;
  EXPECT_EQ(host_share(kMachine, std::nullopt, 1), 1900u);
  EXPECT_EQ(host_share(kMachine, std::nullopt, 4), 475u);
  EXPECT_EQ(host_share(kMachine, 400, 2), 190u);   // a container, a job of Slurm
  EXPECT_EQ(host_share(kMachine, 9000, 2), 950u);  // allowed more than there is
  EXPECT_EQ(host_share(kMachine, std::nullopt, 0), 1900u);
}

}  // namespace
}  // namespace stretto
