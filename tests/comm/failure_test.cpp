// A rank that fails ends the job: nobody is left waiting, and the first error is the one reported.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "comm/contract.h"
#include "comm/threads.h"

namespace stretto {
namespace {

using contract::Array;

std::string error_of(int n, const std::function<void(Comm&)>& body) {
  std::string text = "no error";
  try {
    run_thread_ranks(n, body);
  } catch (const std::exception& error) {
    text = error.what();
  }
  return text;
}

TEST(Failure, WakesPeersInEveryBlockingCall) {
  const std::vector<contract::Case> calls = {
      [](Comm& c) {
        Array a(DType::f32, 90000);
        c.all_reduce(a.tensor());
      },
      [](Comm& c) {
        Array a(DType::f32, 1);
        c.all_reduce(a.tensor());
      },
      [](Comm& c) { c.barrier(); },
      [](Comm& c) {
        Array a(DType::f32, 1);
        c.recv(a.tensor(), 2);
      },
      [](Comm& c) {
        Array a(DType::f32, 90000);
        c.send(a.tensor(), 2);
      },
      [](Comm& c) { c.split(0, 0, "x"); },
  };
  for (const contract::Case call : calls) {
    const std::string text = error_of(3, [&](Comm& comm) {
      if (comm.rank() == 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        throw std::runtime_error("rank 2 breaks");
      }
      call(comm);
    });
    EXPECT_EQ(text, "rank 2 breaks");
  }
}

TEST(Failure, PeersGetPeerLostWithTheReason) {
  std::string seen;
  EXPECT_EQ(error_of(2,
                     [&](Comm& comm) {
                       if (comm.rank() == 1) throw std::runtime_error("disk on fire");
                       try {
                         comm.barrier();
                       } catch (const Error& error) {
                         EXPECT_EQ(error.code(), ExitCode::peer_lost);
                         seen = error.what();
                         throw;
                       }
                     }),
            "disk on fire");
  EXPECT_NE(seen.find("disk on fire"), std::string::npos) << seen;
  EXPECT_NE(seen.find("rank 0"), std::string::npos) << seen;
  EXPECT_NE(seen.find("barrier"), std::string::npos) << seen;
}

TEST(Failure, PastTheStartTheErrorSaysWhere) {
  const std::string text = error_of(3, [](Comm& comm) {
    comm.monitor().set_stage(comm.rank());
    comm.monitor().enter(Section::step, 7);
    if (comm.rank() == 2) throw Error(ExitCode::io_error, "disk full", "free some");
    comm.barrier();
  });
  EXPECT_EQ(text, "rank 2 in step 7 (stage 2): disk full");
}

TEST(Failure, UnwindingWithStartedOperationsDoesNotWait) {
  EXPECT_EQ(error_of(4,
                     [](Comm& comm) {
                       Array a(DType::f32, 200000);
                       Array b(DType::f32, 200000);
                       const auto sum = comm.start_all_reduce(a.tensor());
                       const auto got = comm.start_recv(b.tensor(), (comm.rank() + 1) % 4, 9);
                       if (comm.rank() == 1) throw std::runtime_error("one breaks");
                       sum->wait();
                       got->wait();
                     }),
            "one breaks");
}

TEST(Failure, LeavingEarlyEndsTheJob) {
  const std::string text = error_of(3, [](Comm& comm) {
    if (comm.rank() != 1) comm.barrier();
  });
  EXPECT_NE(text.find("rank 1 has left"), std::string::npos) << text;
}

// The message that a rank waits for, from one that has ended in order.
TEST(Failure, AMessageFromARankThatHasLeftEndsTheJob) {
  const std::string text = error_of(3, [](Comm& comm) {
    Array a(DType::f32, 5);
    if (comm.rank() == 0) comm.recv(a.tensor(), 1);
  });
  EXPECT_NE(text.find("rank 1 has left"), std::string::npos) << text;
}

// The first error is the cause; what other ranks run into afterwards is not.
TEST(Failure, TheFirstOfSeveralErrorsIsReported) {
  const std::string text = error_of(3, [](Comm& comm) {
    if (comm.rank() == 1) throw std::runtime_error("the cause");
    const auto& section = comm.monitor().board().rows[1].section;
    while (section.load() != static_cast<uint32_t>(Section::done)) std::this_thread::yield();
    throw std::runtime_error("a consequence");
  });
  EXPECT_EQ(text, "the cause");
}

TEST(Failure, DifferentCallsAreNamed) {
  const std::string text = error_of(2, [](Comm& comm) {
    Array a(DType::f32, comm.rank() == 0 ? 8 : 9);
    comm.all_reduce(a.tensor());
  });
  EXPECT_NE(text.find("all_reduce of 8"), std::string::npos) << text;
  EXPECT_NE(text.find("9"), std::string::npos) << text;
}

TEST(Failure, DifferentMessageSizesAreNamed) {
  const std::string text = error_of(2, [](Comm& comm) {
    Array a(DType::f32, comm.rank() == 0 ? 8 : 9);
    if (comm.rank() == 0) comm.send(a.tensor(), 1);
    if (comm.rank() == 1) comm.recv(a.tensor(), 0);
    comm.barrier();
  });
  EXPECT_NE(text.find("32 bytes"), std::string::npos) << text;
}

TEST(Failure, AfterManyRandomFailuresNothingIsLeft) {
  for (int round = 0; round < 60; ++round) {
    const std::string text = error_of(4, [&](Comm& comm) {
      const auto half = comm.split(comm.rank() / 2, 0, "half");
      Array a(DType::f32, 1 + (round * 3571) % 100000);
      for (int k = 0; k < 20; ++k) {
        if (comm.rank() == round % 4 && k == round % 19) throw std::runtime_error("injected");
        const auto outer = comm.start_all_reduce(a.tensor());
        Array b(DType::f32, 10 + k);
        half->all_reduce(b.tensor());
      }
    });
    EXPECT_EQ(text, "injected");
  }
}

TEST(FailureDeathTest, RankThatDoesNotStopIsNotWaitedFor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_thread_ranks(
                  2,
                  [](Comm& comm) {
                    if (comm.rank() == 1) throw Error(ExitCode::io_error, "disk full");
                    std::this_thread::sleep_for(std::chrono::seconds(60));
                  },
                  0.2),
              testing::ExitedWithCode(74), "rank 1: disk full");
}

TEST(FailureDeathTest, AbortEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_thread_ranks(3,
                               [](Comm& comm) {
                                 if (comm.rank() == 1) comm.abort(79, "loss is NaN");
                                 comm.barrier();
                               }),
              testing::ExitedWithCode(79), "loss is NaN");
}

// Room for three of the eight: those that run are told, and the error says which could not start.
TEST(Failure, ARankThatCannotStartEndsTheJob) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more addresses than this leaves";
#endif
  constexpr size_t kGiB = size_t{1} << 30;
  const auto start_in_little_room = [] {
    pthread_attr_t stack;
    pthread_getattr_default_np(&stack);
    pthread_attr_setstacksize(&stack, kGiB);
    pthread_setattr_default_np(&stack);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    const auto used = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, used + 7 * kGiB / 2);
    setrlimit(RLIMIT_AS, &limit);
    try {
      run_thread_ranks(8, [](Comm& comm) { comm.barrier(); });
    } catch (const Error& error) {
      fmt::print(stderr, "{}\n", error.what());
      std::_Exit(static_cast<int>(error.code()));
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(start_in_little_room(), testing::ExitedWithCode(71), "start rank 3 of 8");
}

}  // namespace
}  // namespace stretto
