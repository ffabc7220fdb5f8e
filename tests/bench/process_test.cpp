// Child processes: how they ended is known, or an error.
#include "bench/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "base/error.h"
#include "support/expect_error.h"

namespace stretto {
namespace {

TEST(Process, SaysHowAChildEnded) {
  EXPECT_EQ(run_process({"/bin/sh", "-c", "exit 3"}, {}).exit_code, 3);
  EXPECT_EQ(run_process({"/bin/sh", "-c", "kill -9 $$"}, {}).signal, SIGKILL);
  const pid_t child = start_process({"/bin/sleep", "60"}, "");
  EXPECT_FALSE(end_of_process(child, false));
  kill(child, SIGKILL);
  EXPECT_EQ(WTERMSIG(end_of_process(child, true).value()), SIGKILL);
}

TEST(Process, AnEndThatNobodyToldIsNoSuccess) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_ERROR(run_process({"/bin/sh", "-c", "exit 3"}, {}), ExitCode::os_error, "how process");
  std::signal(SIGCHLD, before);
}

}  // namespace
}  // namespace stretto
