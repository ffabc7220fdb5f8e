// Ends a job that makes no progress. MPI and threads have no time-outs of their own, so a single
// stopped rank would block all others for ever.
//   Watchdog watchdog(world, {.timeout = config.train.watchdog});
//   watchdog.enter(Section::step, step);   // at each step; every Comm call is a sign of life, too
//   watchdog.beat();                       // in long stretches without either
//
// If a rank gives no sign of life for `timeout` seconds (times its section's factor), the first
// rank of the machine to notice prints one message that names the silent ranks, their section and
// step, and the collective in which the others wait. Then the job ends with exit code 81. The same
// happens, without that delay, when the process of a rank on this machine has ended without a word.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "comm/comm.h"

namespace stretto {

struct WatchdogOptions {
  double timeout = 300;  // seconds; 0 = off
  // Start and saving may take longer than a step. Multiples of the time-out, by Section.
  std::array<double, 4> factor = {2, 1, 1, 2};
  // On a time-out the flight recorder's last 4096 entries go to <dir>/flight-rank<r>.txt. If empty,
  // only the last few are shown, in the message.
  std::string dump_dir = {};
};

// Decides from regular looks at a rank's row whether the rank has been silent for too long. The
// caller passes the time, so that tests can choose it.
class HangDetector {
 public:
  HangDetector(const WatchdogOptions& options, int64_t now_ns);

  std::chrono::nanoseconds period() const { return period_; }  // between two looks
  // The seconds without a sign of life, if that is more than the rank's section allows. A late look
  // counts as two periods at most: if the thread that looks could not run (Ctrl-Z, a debugger, a
  // suspended or crowded machine), the rank may not have run either.
  std::optional<double> look(const RankStatus& row, int64_t now_ns);

 private:
  double limit_seconds(const RankStatus& row) const;

  WatchdogOptions options_;
  std::chrono::nanoseconds period_;
  int64_t last_look_ns_;
  int64_t silent_ns_ = 0;
};

class Watchdog {
 public:
  Watchdog(Comm& world, WatchdogOptions options);
  ~Watchdog();  // stops watching
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void enter(Section section, int64_t step = -1) { world_.monitor().enter(section, step); }
  void beat() { world_.monitor().beat(); }

 private:
  void watch(const std::stop_token& stop);
  [[noreturn]] void end_job(double silent_seconds);

  Comm& world_;
  WatchdogOptions options_;
  int parent_;  // process id of the launcher; 0 = not watched
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

// The messages, composed from this machine's board. Declared here for tests.
std::string describe_hang(const StatusBoard& board, int64_t now_ns, double limit_seconds);
// Names ranks whose process has ended before they were done; empty if there are none.
std::string describe_loss(const StatusBoard& board);

}  // namespace stretto
