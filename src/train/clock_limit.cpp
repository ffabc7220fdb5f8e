#include "train/clock_limit.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"

namespace stretto {
namespace {

// Reads one order per line (a clock in MHz; 0 lifts the ceiling) and answers with one line: exit
// code and output of nvidia-smi. Input ends when the last process that could write it is gone; then
// the ceiling is lifted. An answer that nobody reads must not end the shell before that, hence the
// traps.
constexpr const char* kHolder = R"sh(
trap '' INT TERM HUP QUIT PIPE
set -f
gpu=$1 held=0
while read -r mhz; do
  if [ "$mhz" = 0 ]; then words=$(nvidia-smi -i "$gpu" -rgc 2>&1)
  else words=$(nvidia-smi -i "$gpu" -lgc "210,$mhz" 2>&1); fi
  code=$?
  [ $code -ne 0 ] || held=$mhz
  echo $code $words 2> /dev/null
done
[ $held = 0 ] || nvidia-smi -i "$gpu" -rgc > /dev/null 2>&1
)sh";

[[noreturn]] void refused(const std::string& what) {
  throw Error(ExitCode::no_permission, what,
              "gpu_clock needs nvidia-smi and the right to use `nvidia-smi -lgc` (root, or a "
              "container with that right); gpu_clock=0 leaves the clock alone");
}

}  // namespace

ClockLimit::ClockLimit(std::string gpu) : gpu_(std::move(gpu)) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw Error(ExitCode::os_error, fmt::format("cannot open a socket: {}", std::strerror(errno)));
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, 3);  // do not inherit the run's lock
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);  // no signals from our terminal
  std::array<const char*, 6> words = {"sh",         "-c",   kHolder, "stretto-gpu-clock",
                                      gpu_.c_str(), nullptr};
  const int error = posix_spawn(&holder_, "/bin/sh", &files, &attributes,
                                const_cast<char* const*>(words.data()), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
  line_ = ends[0];
  const timeval patience{30, 0};
  setsockopt(line_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  if (error == 0) return;
  close(line_);
  throw Error(ExitCode::os_error, fmt::format("cannot start /bin/sh: {}", std::strerror(error)));
}

// Waits 10 s at most, because nvidia-smi may hang on a lost GPU. The shell works on without us.
ClockLimit::~ClockLimit() {
  close(line_);
  for (int i = 0; i < 1000 && waitpid(holder_, nullptr, WNOHANG) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void ClockLimit::set(int64_t mhz) {
  const std::string order = fmt::format("{}\n", mhz);
  send(line_, order.data(), order.size(), MSG_NOSIGNAL);
  std::string answer;
  for (char c = 0; c != '\n';) {
    const ssize_t got = recv(line_, &c, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    answer += c;
  }
  const size_t code = std::min(answer.find_first_of(" \n"), answer.size());
  if (answer.substr(0, code) == "0") return;
  std::string words = answer.empty() ? "no answer" : answer.substr(code);
  words.erase(0, words.find_first_not_of(' ')).erase(words.find_last_not_of(" \n") + 1);
  const std::string what = mhz > 0 ? fmt::format("be held at {} MHz", mhz) : "rise again";
  refused(fmt::format("GPU {}: its clock cannot {}: {}", gpu_, what, words));
}

}  // namespace stretto
