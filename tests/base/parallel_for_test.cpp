#include "base/parallel_for.h"

#include <gtest/gtest.h>

#include <barrier>
#include <set>
#include <thread>

namespace stretto {
namespace {

TEST(ParallelFor, EveryPieceIsDoneOnceByAWorkerOfTheTeam) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const int64_t pieces : {0, 1, 2, 7, 1000}) {
      std::vector<int> done(static_cast<size_t>(pieces)), worker(done);
      parallel_for(threads, pieces, [&](int64_t piece, int who) {
        ++done[static_cast<size_t>(piece)];
        worker[static_cast<size_t>(piece)] = who;
      });
      for (size_t i = 0; i < done.size(); ++i) {
        EXPECT_EQ(done[i], 1) << threads << " threads, piece " << i;
        EXPECT_TRUE(worker[i] >= 0 && worker[i] < threads) << worker[i];
      }
    }
  }
}

// What a piece wrote is there when the call returns, round after round, however late a helper is.
TEST(ParallelFor, RoundsFollowEachOther) {
  std::vector<int64_t> values(64);
  for (int64_t round = 1; round <= 3000; ++round) {
    const int64_t pieces = 1 + round % 64;
    parallel_for(4, pieces, [&](int64_t piece) { values[static_cast<size_t>(piece)] += round; });
    if (round % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // asleep
  }
  std::vector<int64_t> expected(64);
  for (int64_t round = 1; round <= 3000; ++round) {
    for (int64_t piece = 0; piece < 1 + round % 64; ++piece) {
      expected[static_cast<size_t>(piece)] += round;
    }
  }
  EXPECT_EQ(values, expected);
}

TEST(ParallelFor, PiecesMayWaitForEachOtherWhereThereAreAsManyThreads) {
  std::barrier meeting(4);
  for (int round = 0; round < 50; ++round) {
    parallel_for(4, 4, [&](int64_t) { meeting.arrive_and_wait(); });
  }
}

// Scratch memory is there for as many workers as were asked for, not for all that exist.
TEST(ParallelFor, ASmallerTeamHasSmallerNumbers) {
  parallel_for(6, 100, [](int64_t) {});
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> most = 0;
    parallel_for(2, 50, [&](int64_t, int worker) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // time for all to wake
      int seen = most.load();
      while (worker > seen && !most.compare_exchange_weak(seen, worker)) {
      }
    });
    ASSERT_LT(most.load(), 2);
  }
}

TEST(ParallelFor, ThreadsHaveTeamsOfTheirOwn) {
  std::vector<int64_t> sums(4);
  {
    std::vector<std::jthread> callers;
    for (size_t caller = 0; caller < sums.size(); ++caller) {
      callers.emplace_back([&sums, caller] {
        for (int round = 0; round < 300; ++round) {
          std::atomic<int64_t> sum = 0;
          parallel_for(3, 20, [&](int64_t piece) { sum += piece; });
          sums[caller] += sum;
        }
      });
    }
  }
  EXPECT_EQ(sums, std::vector<int64_t>(4, 300 * 190));
}

TEST(ParallelFor, ConstantWorkAndPlainFunctionsAreTaken) {
  std::atomic<int> calls = 0;
  const auto constant = [&](int64_t) { ++calls; };
  parallel_for(2, 10, constant);
  EXPECT_EQ(calls.load(), 10);
}

}  // namespace
}  // namespace stretto
