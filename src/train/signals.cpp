#include "train/signals.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace stretto {
namespace {

// Process-wide because signals are.
std::atomic<int> g_signal{0};
std::atomic<const char*> g_note{nullptr};

// Must be async-signal-safe: only write(), of bytes prepared before.
void say_note() {
  const char* note = g_note.exchange(nullptr);
  if (note == nullptr) return;
  const int saved = errno;
  // A terminal that has gone away is no reason to fail.
  if (write(STDERR_FILENO, note, std::strlen(note)) < 0) errno = saved;
}

void on_signal(int signal) {
  if (signal == SIGINT && g_signal.load() == SIGINT) _exit(128 + SIGINT);
  if (signal == SIGPIPE && g_signal.load() != 0) return;  // a consequence of the first signal
  g_signal.store(signal);
  if (signal == SIGINT) say_note();
}

}  // namespace

void install_stop_signals(const char* note) {
  g_note.store(note != nullptr && isatty(STDERR_FILENO) == 1 ? note : nullptr);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, SIGHUP}) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    const bool left_alone = signal == SIGPIPE || signal == SIGHUP;  // stay ignored if they are
    if (!left_alone || before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

int stop_signal() { return g_signal.load(); }

bool stop_file_exists(const std::string& run_directory) {
  if (run_directory.empty()) return false;
  struct stat info = {};
  return stat((run_directory + "/stop").c_str(), &info) == 0;
}

}  // namespace stretto
