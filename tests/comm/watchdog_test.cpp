#include "comm/watchdog.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/host.h"
#include "comm/contract.h"
#include "comm/long_work.h"
#include "comm/threads.h"
#include "support/expect_error.h"
#include "support/no_threads.h"

namespace stretto {
namespace {

using contract::Array;

TEST(FlightRecorder, KeepsTheLast4096) {
  FlightRecorder recorder;
  EXPECT_TRUE(recorder.last(10).empty());
  for (uint64_t seq = 1; seq <= 5000; ++seq) {
    recorder.start(seq, CommKind::all_gather, seq * 2, group_tag("dp"));
    if (seq != 4999 && seq != 4097) recorder.finish(seq);
  }
  recorder.finish(1);  // its slot belongs to 4097 by now
  const auto all = recorder.last(10000);
  ASSERT_EQ(all.size(), FlightRecorder::kEntries);
  EXPECT_EQ(all.front().seq, 905u);
  EXPECT_EQ(all.back().seq, 5000u);
  EXPECT_EQ(all.back().bytes, 10000u);
  for (const FlightRecorder::Entry& entry : all) {
    EXPECT_EQ(entry.state == FlightRecorder::State::done, entry.seq != 4097 && entry.seq != 4999)
        << entry.seq;
  }
  EXPECT_EQ(recorder.text(2),
            "#4999 all_gather 9998 bytes, group dp, not finished\n"
            "#5000 all_gather 10000 bytes, group dp, done\n");
}

TEST(Watchdog, MessageNamesWhoStandsStillAndWhereOthersWait) {
  const StatusBoard board = StatusBoard::in_process(3);
  std::vector<std::unique_ptr<RankMonitor>> ranks;
  for (int r = 0; r < 3; ++r) ranks.push_back(std::make_unique<RankMonitor>(board, r, r + 4));
  for (const auto& rank : ranks) rank->enter(Section::step, 17);
  for (const int r : {0, 2}) {
    ranks[static_cast<size_t>(r)]->begin(CommKind::all_reduce, 4096, group_tag("dp"));
    ranks[static_cast<size_t>(r)]->wait_begins(CommKind::all_reduce, 4096, group_tag("dp"));
  }
  const std::string text = describe_hang(board, monotonic_ns(), 12.4);
  EXPECT_NE(text.find("rank 5 stands still in step 17"), std::string::npos) << text;
  EXPECT_NE(text.find("ranks 4, 6 wait in all_reduce #1 (4096 bytes, group dp), step 17"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("rank 4 stands"), std::string::npos) << text;
}

TEST(Watchdog, WhenAllWaitTheOneBehindIsNamed) {
  const StatusBoard board = StatusBoard::in_process(2);
  RankMonitor ahead(board, 0, 0);
  RankMonitor behind(board, 1, 1);
  ahead.begin(CommKind::barrier, 0, group_tag("world"));
  for (RankMonitor* rank : {&ahead, &behind}) {
    rank->begin(CommKind::barrier, 0, group_tag("world"));
    rank->wait_begins(CommKind::barrier, 0, group_tag("world"));
  }
  const std::string text = describe_hang(board, monotonic_ns(), 1);
  EXPECT_NE(text.find("rank 1 stands still"), std::string::npos) << text;
}

// Although it has made as few calls as the rank that is behind.
TEST(Watchdog, ARankThatEndedInOrderIsNotBlamed) {
  const StatusBoard board = StatusBoard::in_process(3);
  RankMonitor ahead(board, 0, 0), behind(board, 1, 1), ended(board, 2, 2);
  for (RankMonitor* rank : {&ahead, &ahead, &behind, &ended}) {
    rank->begin(CommKind::barrier, 0, group_tag("world"));
  }
  for (RankMonitor* rank : {&ahead, &behind}) {
    rank->wait_begins(CommKind::barrier, 0, group_tag("world"));
  }
  ended.enter(Section::done);
  const std::string text = describe_hang(board, monotonic_ns(), 1);
  EXPECT_NE(text.find("rank 1 stands still"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank 2"), std::string::npos) << text;
}

TEST(Watchdog, StageAndStepAreNamed) {
  const StatusBoard board = StatusBoard::in_process(2);
  RankMonitor still(board, 0, 4), waiting(board, 1, 5);
  still.set_stage(1);
  still.enter(Section::step, 12);
  waiting.enter(Section::save, 10);
  waiting.wait_begins(CommKind::recv, 64, group_tag("pp"));
  const std::string text = describe_hang(board, monotonic_ns(), 1);
  EXPECT_NE(text.find("rank 4 stands still in step 12 (stage 1)"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 5 waits in recv #0 (64 bytes, group pp), save at step 10"),
            std::string::npos)
      << text;
}

TEST(Watchdog, AStoppedProcessIsNamedWhereverItsRankIs) {
  const StatusBoard board = StatusBoard::in_process(3);
  RankMonitor ranks[] = {{board, 0, 0}, {board, 1, 1}, {board, 2, 2}};
  for (RankMonitor& rank : ranks) rank.alive();
  ranks[0].begin(CommKind::send, 8, group_tag("pp"));
  for (RankMonitor& rank : ranks) {
    rank.begin(CommKind::all_reduce, 24, group_tag("pp"));
    rank.wait_begins(CommKind::all_reduce, 24, group_tag("pp"));
  }
  const int64_t later = monotonic_ns() + 5'000'000'000;
  board.rows[0].alive_ns.store(later - 100'000'000);
  board.rows[2].alive_ns.store(later - 100'000'000);
  const std::string text = describe_hang(board, later, 3);
  EXPECT_NE(text.find("rank 1 stands still in init since 5.0 s, in all_reduce #1 (24 bytes, group "
                      "pp), its process is stopped; "),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("rank 2 stands"), std::string::npos) << text;
}

// A watchdog looks at least twice a second. A process is taken for stopped when it has not stamped
// its row for half of the limit, and never before a second has passed.
TEST(Watchdog, AProcessIsStoppedWhenItsRowGrowsOld) {
  const StatusBoard board = StatusBoard::in_process(1);
  RankMonitor rank(board, 0, 0);
  const int64_t now = monotonic_ns() + 1'000'000'000'000;
  const auto stopped = [&](double seconds, double limit) {
    board.rows[0].alive_ns.store(now - static_cast<int64_t>(seconds * 1e9));
    return describe_hang(board, now, limit).find("its process is stopped") != std::string::npos;
  };
  for (const auto& [limit, allowed] :
       {std::pair{0.1, 1.0}, {1.0, 1.0}, {2.0, 1.0}, {3.0, 1.5}, {20.0, 10.0}, {600.0, 300.0}}) {
    EXPECT_FALSE(stopped(0.99 * allowed, limit)) << limit;
    EXPECT_TRUE(stopped(1.01 * allowed, limit)) << limit;
  }
  board.rows[0].alive_ns.store(0);  // it has no watchdog
  EXPECT_EQ(describe_hang(board, now, 3).find("its process is stopped"), std::string::npos);
  rank.enter(Section::done);
  EXPECT_FALSE(stopped(1000, 3));
}

// The number of a process that has ended.
int ended_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST(Watchdog, AProcessThatHasEndedIsNamed) {
  const StatusBoard board = StatusBoard::in_process(4);
  RankMonitor ranks[] = {{board, 0, 4}, {board, 1, 5}, {board, 2, 6}, {board, 3, 7}};
  for (RankMonitor& rank : ranks) rank.enter(Section::step, 12);
  for (const int r : {0, 2}) ranks[r].wait_begins(CommKind::all_reduce, 64, group_tag("dp"));
  EXPECT_EQ(describe_loss(board), "");
  const int gone = ended_process();
  for (const int r : {1, 3}) board.rows[r].process.store(gone);
  ranks[3].enter(Section::done);  // it ended in order
  EXPECT_EQ(describe_loss(board),
            fmt::format("rank 5 has ended in step 12 without a word (process {} on {}); ranks 4, 6 "
                        "wait in all_reduce #0 (64 bytes, group dp), step 12",
                        gone, host_name()));
  board.rows[1].space.store(board.rows[1].space.load() + 1);  // a number of another container
  EXPECT_EQ(describe_loss(board), "");
}

// One rank and who watches it, on a clock of their own. The rank gives a sign of life now and then,
// or none; looks come every period, and the first alarm is kept.
class Watched {
 public:
  explicit Watched(Section section = Section::step) : rank_(board_, 0, 0) {
    rank_.enter(section, 1);
    board_.rows[0].beat_ns.store(now_);
  }

  std::optional<double> live(double seconds, double seconds_per_beat) {
    const int64_t end = now_ + nanoseconds(seconds);
    int64_t beat = now_ + nanoseconds(seconds_per_beat);
    while (now_ < end) {
      now_ += detector_.period().count();
      for (; beat <= now_; beat += nanoseconds(seconds_per_beat)) {
        board_.rows[0].beat_ns.store(beat);
      }
      if (const auto alarm = detector_.look(board_.rows[0], now_)) return alarm;
    }
    return std::nullopt;
  }
  std::optional<double> keep_silent(double seconds) { return live(seconds, 1e6); }
  void sleep_with_its_watcher(double seconds) { now_ += nanoseconds(seconds); }

 private:
  static int64_t nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

  StatusBoard board_ = StatusBoard::in_process(1);
  RankMonitor rank_;
  int64_t now_ = 1'000'000'000'000;
  HangDetector detector_{{.timeout = 8}, now_};
};

TEST(HangDetector, LeavesALivingRankAlone) {
  EXPECT_EQ(Watched().live(1000, 0.001), std::nullopt);
  EXPECT_EQ(Watched().live(1000, 7.3), std::nullopt);
}

TEST(HangDetector, ReportsASilentRankAtTheFirstLookBeyondItsLimit) {
  Watched rank;
  EXPECT_EQ(rank.live(100, 2), std::nullopt);
  EXPECT_EQ(rank.keep_silent(8), std::nullopt);
  EXPECT_DOUBLE_EQ(rank.keep_silent(1).value_or(0), 8.5);
}

TEST(HangDetector, StartAndSavingMayTakeLonger) {
  for (const Section section : {Section::init, Section::save}) {
    Watched rank(section);
    EXPECT_EQ(rank.keep_silent(16), std::nullopt);
    EXPECT_DOUBLE_EQ(rank.keep_silent(1).value_or(0), 16.5);
  }
  EXPECT_EQ(Watched(Section::done).keep_silent(1000), std::nullopt);
}

TEST(HangDetector, WhereTheWatcherDidNotRunNobodyIsBlamed) {
  Watched rank;
  for (const double seconds : {1.4, 3.0, 8.2, 1e5}) {  // a crowded machine; a suspended one
    EXPECT_EQ(rank.keep_silent(4), std::nullopt) << seconds;
    rank.sleep_with_its_watcher(seconds);
    EXPECT_EQ(rank.live(3, 2), std::nullopt) << seconds;
  }
  rank.sleep_with_its_watcher(1e5);
  EXPECT_DOUBLE_EQ(rank.keep_silent(20).value_or(0), 8.5);  // a rank that hangs is still found
}

// Ranks that are done see signs of life while others make progress, and none when those stop.
TEST(LongWork, ThoseWhoWaitShowWhatOthersDo) {
  run_thread_ranks(2, [](Comm& world) {
    LongWork work(world);
    if (world.rank() == 0) {
      const RankStatus& other = world.monitor().board().rows[1];
      const auto waits = [&] { return other.waits_in.load() != 0; };
      while (!waits()) std::this_thread::yield();
      const int64_t before = other.beat_ns.load();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(other.beat_ns.load(), before);
      for (int i = 0; i < 2; ++i) {
        const int64_t last = other.beat_ns.load();
        while (other.beat_ns.load() == last) work.moved();
      }
    }
    work.wait();
  });
}

TEST(Watchdog, OneThatCannotStartIsNoBug) {
  const std::unique_ptr<Comm> world = make_self_comm();
  const NoThreads no_threads;
  EXPECT_ERROR(Watchdog(*world, {.timeout = 300}), ExitCode::os_error, "the watchdog of rank 0");
}

TEST(WatchdogDeathTest, EndsAJobThatHasLostARank) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto body = [](Comm& world) {
    Watchdog watchdog(world, {.timeout = 300});
    watchdog.enter(Section::step, 8);
    if (world.rank() == 1) world.monitor().board().rows[1].process.store(ended_process());
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
    Array a(DType::f32, 256);
    world.all_reduce(a.tensor());
  };
  EXPECT_EXIT(run_thread_ranks(2, body), testing::ExitedWithCode(81),
              "rank 1 has ended in step 8 without a word.*fix: resume");
}

TEST(WatchdogDeathTest, EndsAHungJob) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_thread_ranks(3,
                               [](Comm& world) {
                                 Watchdog watchdog(world, {.timeout = 2});
                                 watchdog.enter(Section::step, 8);
                                 if (world.rank() == 2) {
                                   std::this_thread::sleep_for(std::chrono::seconds(30));
                                 }
                                 Array a(DType::f32, 256);
                                 world.all_reduce(a.tensor());
                               }),
              testing::ExitedWithCode(81),
              "rank 2 stands still in step 8.*ranks 0, 1 wait in all_reduce #1 .1024 bytes, group "
              "world.");
}

}  // namespace
}  // namespace stretto
