#include "bench/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "bench/safe_text.h"

namespace stretto {
namespace {

constexpr int kCannotStart = 127;

Error system_error(const char* what, const std::string& path) {
  return {ExitCode::os_error, fmt::format("{} {}: {}", what, path, std::strerror(errno)),
          "check permissions and limits (ulimit -u, ulimit -n)"};
}

int open_log(const std::string& path) {
  if (path.empty()) return open("/dev/null", O_WRONLY | O_CLOEXEC);
  return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0640);
}

// Between fork and exec: only async-signal-safe calls.
[[noreturn]] void become(char* const* argv, int log, pid_t parent,
                         const std::function<void()>& prepare) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotStart);  // the parent died before we asked to die with it
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  if (prepare) prepare();
  execv(argv[0], argv);
  _exit(kCannotStart);
}

}  // namespace

pid_t start_process(const std::vector<std::string>& argv, const std::string& log,
                    const std::function<void()>& prepare) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const int out = open_log(log);
  if (out < 0) throw system_error("cannot write", log);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) become(words.data(), out, parent, prepare);
  close(out);
  if (child < 0) throw system_error("cannot start", argv[0]);
  setpgid(child, child);  // in parent and child, because either may get there first
  return child;
}

std::optional<int> end_of_process(pid_t child, bool wait) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = waitpid(child, &status, wait ? 0 : WNOHANG);
  } while (ended < 0 && errno == EINTR);
  if (ended < 0) {
    throw Error(ExitCode::os_error,
                fmt::format("cannot learn how process {} ended: {}", child, std::strerror(errno)),
                "nothing else in this process may ignore SIGCHLD or wait for its children");
  }
  return ended > 0 ? std::optional(status) : std::nullopt;
}

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options) {
  const double start = clock_seconds();
  const pid_t child = start_process(argv, options.log);
  ProcessResult result;
  std::optional<int> end;
  double asked = -1;  // when we asked it to end; -1: not yet
  while (!(end = end_of_process(child, false))) {
    result.seconds = clock_seconds() - start;
    if (asked < 0) {
      result.timed_out = result.seconds > options.timeout;
      result.stopped = !result.timed_out && options.stop && options.stop();
      if (result.timed_out || result.stopped) {
        asked = result.seconds;
        kill(-child, SIGTERM);
      }
    }
    if (asked >= 0 && result.seconds >= asked + options.grace) kill(-child, SIGKILL);
    if (asked < 0 && options.waiting) options.waiting(result.seconds);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(-child, SIGKILL);  // whatever it started and left behind
  result.seconds = clock_seconds() - start;
  if (WIFSIGNALED(*end)) result.signal = WTERMSIG(*end);
  if (WIFEXITED(*end)) result.exit_code = WEXITSTATUS(*end);
  return result;
}

std::string own_program() {
  std::string path(4096, '\0');
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) throw system_error("cannot read", "/proc/self/exe");
  path.resize(static_cast<size_t>(length));
  return path;
}

std::string file_tail(const std::string& path, size_t bytes) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const auto size = static_cast<size_t>(in.tellg());
  const size_t from = size > bytes ? size - bytes : 0;
  in.seekg(static_cast<std::streamoff>(from));
  std::string text(size - from, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (from > 0) text.erase(0, text.find('\n') + 1);
  return without_control(text, true);
}

}  // namespace stretto
