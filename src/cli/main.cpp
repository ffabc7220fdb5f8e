// Parses the command line and runs one verb. Exceptions are caught only here and in the code that
// runs ranks.
#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/wrap.h"
#include "cli/verbs.h"
#include "train/gpu_queues.h"

namespace stretto::cli {
namespace {

constexpr const char* kExamples =
    "Stretto trains GPT language models, measures what the hardware delivers, and plans the\n"
    "fastest topology.\n\n"
    "Examples:\n"
    "  stretto train configs/runs/tiny.yaml          train a small GPT, a few seconds\n"
    "  stretto train -n 4 tiny parallel.tp=2         on four ranks, dp 2 x tp 2\n"
    "  stretto bench tiny                            time a configuration\n"
    "  stretto sweep -m tiny -s 6 7 --tp 1 2 --run   time a grid of them\n"
    "  stretto plan mpt-7b --cluster h100 --gpus 64  the fastest layout on a cluster\n"
    "  stretto flops mpt-125m                        parameters, FLOPs and memory\n"
    "  stretto config keys                           what can be set\n"
    "  stretto doctor                                what this machine delivers\n";

// The exit code tells of the error even if stderr cannot be written.
int report(const Error& error) {
  std::string text = fmt::format("stretto: {}\n", printable_lines(error.what()));
  if (!error.hint().empty()) text += fmt::format("  fix: {}\n", printable_lines(error.hint()));
  if (stderr_is_terminal()) text = fit_page(text, message_width());
  std::fputs(text.c_str(), stderr);
  return static_cast<int>(error.code());
}

int answer_of(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv, kExamples);
  } catch (const Answered& answered) {
    return static_cast<int>(answered.code);
  }
}

Error lost_output(const char* why) {
  return {ExitCode::io_error, fmt::format("cannot write to standard output: {}", why),
          "make room where it goes, and repeat the command"};
}

// If a standard stream is closed, the next file to be opened would get its number and receive what
// is printed. So the number is given to a file that cannot be written, and lost output is still
// noticed.
void claim_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDONLY);
  }
}

}  // namespace

int run(int argc, char** argv) {
  claim_standard_streams();
  ask_for_gpu_queues();
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding a file-size limit becomes an error, like a full disk
  // Our parent may have passed on an ignored SIGCHLD; then the outcome of our own children would be
  // lost.
  std::signal(SIGCHLD, SIG_DFL);
  init_log(LogLevel::normal);
  try {
    const int code = answer_of(argc, argv);
    const bool flushed = std::fflush(stdout) == 0;
    const char* why = flushed ? "it is closed, or was full" : std::strerror(errno);
    // Code 1 is an answer ("slower", "not the same") that may have been lost like any other output.
    const bool written = flushed && std::ferror(stdout) == 0;
    return written || code > 1 ? code : report(lost_output(why));
  } catch (const Error& error) {
    return report(error);
  } catch (const std::bad_alloc&) {
    return report({ExitCode::out_of_memory, "out of memory", "use a smaller batch or model"});
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return report(lost_output(error.what()));
    return report({ExitCode::internal, error.what(), "this is a bug in Stretto; please report it"});
  }
}

}  // namespace stretto::cli
