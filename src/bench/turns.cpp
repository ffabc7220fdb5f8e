#include "bench/turns.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/cores.h"
#include "base/error.h"
#include "bench/process.h"

namespace stretto {
namespace {

constexpr int kGo = 3, kDone = 4;  // file descriptors in the player's process
constexpr int kPipes[] = {kGo, kDone};
constexpr int64_t kMostRounds = 900;
// Players must not reach the end of their runs by themselves. The first step is not part of a
// round.
static_assert(kMostRounds + kWarmupSteps < kMostSteps);
// Milliseconds: the limit for one step, start included; and between two checks whether to stop.
constexpr int kPatience = 10 * 60 * 1000, kLook = 100;

Error no_pipe() {
  return {ExitCode::os_error, fmt::format("cannot make a pipe: {}", std::strerror(errno)),
          "check permissions and limits (ulimit -u, ulimit -n)"};
}

// Moves a descriptor above the numbers that the player will use.
int high(int descriptor) {
  const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
  close(descriptor);
  if (copy < 0) throw no_pipe();
  return copy;
}

cpu_set_t cores_of(const Turns& turns) {
  const std::vector<int> usable = allowed_cores();
  const bool all = turns.cores <= 0 || turns.cores >= std::ssize(usable);
  cpu_set_t some;
  CPU_ZERO(&some);
  for (int64_t i = 0; i < (all ? std::ssize(usable) : turns.cores); ++i) {
    CPU_SET(static_cast<size_t>(usable[static_cast<size_t>(turns.first_core + i) % usable.size()]),
            &some);
  }
  return some;
}

class Running {
 public:
  Running(const Player& player, const Turns& turns, const cpu_set_t& cores)
      : player_(player), turns_(turns) {
    int go[2], done[2];
    if (pipe(go) != 0 || pipe(done) != 0) throw no_pipe();
    for (int* end : {&go[0], &go[1], &done[0], &done[1]}) *end = high(*end);
    go_ = go[1];
    done_ = done[0];
    child_ = start_process(player.argv, player.log, [&] {
      sched_setaffinity(0, sizeof cores, &cores);
      dup2(go[0], kGo);
      dup2(done[1], kDone);
    });
    close(go[0]);
    close(done[1]);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (child_ > 0) {
      kill(-child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    if (go_ >= 0) close(go_);
    close(done_);
  }

  void hear_end_of_step() const {
    pollfd waiting{done_, POLLIN, 0};
    int ready = 0;
    for (int waited = 0; ready != 1; waited += kLook) {
      if (turns_.stop && turns_.stop()) {
        throw Error(ExitCode::resumable, "stopped before the programs had taken all their turns",
                    "run the same command again");
      }
      if (waited > kPatience) fail("took too long for a step");
      ready = poll(&waiting, 1, kLook);
    }
    char byte = 0;
    if (read(done_, &byte, 1) != 1) fail("ended too early");
  }

  void play() const {
    if (write(go_, "g", 1) != 1) fail("ended too early");
    hear_end_of_step();
  }

  void finish() {
    close(go_);
    go_ = -1;
    const int status = *end_of_process(std::exchange(child_, -1), true);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("failed");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(ExitCode::os_error,
                fmt::format("{} {} while programs took turns:\n{}", player_.argv[0], what,
                            file_tail(player_.log, 2000)),
                "both must be a stretto that knows `bench --in-turns`, and run this configuration");
  }

  const Player& player_;
  const Turns& turns_;
  pid_t child_ = -1;
  int go_ = -1, done_ = -1;
};

}  // namespace

bool was_started_by_run_in_turns() {
  return std::all_of(std::begin(kPipes), std::end(kPipes), [](int descriptor) {
    struct stat about {};
    return fstat(descriptor, &about) == 0 && S_ISFIFO(about.st_mode);
  });
}

bool take_turn() {
  char byte = 0;
  return write(kDone, "d", 1) == 1 && read(kGo, &byte, 1) == 1;
}

void run_in_turns(const Player& a, const Player& b, const Turns& turns) {
  signal(SIGPIPE, SIG_IGN);  // writing to a player that has ended must not end us
  const cpu_set_t cores = cores_of(turns);
  Running first(a, turns, cores), second(b, turns, cores);
  first.hear_end_of_step();
  second.hear_end_of_step();
  const double start = clock_seconds();
  const auto enough = [&](int64_t round) {
    const double passed = clock_seconds() - start;
    return (round >= turns.rounds && passed >= turns.seconds) || round >= kMostRounds;
  };
  for (int64_t round = 0; !enough(round); ++round) {
    (round % 2 == 0 ? first : second).play();
    (round % 2 == 0 ? second : first).play();
  }
  first.finish();
  second.finish();
}

}  // namespace stretto
