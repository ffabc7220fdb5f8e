// A process that kills itself with SIGKILL at every file operation of a save on a real file system,
// and of the removal of the checkpoint before: one that loads is always left.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "checkpoint/sample.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"

namespace stretto::test {
namespace {

// The status that the system reports of a child which dies at operation `n`.
int status_of_a_child_killed_at(int n, const std::string& root) {
  const pid_t child = ::fork();
  if (child == 0) {
    FaultFs fs(posix_fs());
    fs.kill_at = n;
    fs.sigkill = true;
    save_and_prune(fs, root);
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(CheckpointStore, SigkillAtEveryOperation) {
  const TempDir whole(Where::memory);
  const int operations = operations_of_a_save(posix_fs(), whole / "checkpoints");
  ASSERT_GT(operations, 50);
  int old_one = 0, new_one = 0, with_leftovers = 0;
  for (int n = 0; n < operations; ++n) {
    SCOPED_TRACE(fmt::format("SIGKILL at operation {} of {}", n, operations));
    const TempDir dir(Where::memory);
    const std::string root = dir / "checkpoints";
    CheckpointStore store(posix_fs(), root);
    save_sample(store, 10);
    const int status = status_of_a_child_killed_at(n, root);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

    const auto newest = newest_verified(store, [](int64_t step, const Error& error) {
      ADD_FAILURE() << "an unfinished save looks like step " << step << ": " << error.what();
    });
    ASSERT_TRUE(newest);
    EXPECT_TRUE(holds_sample(*newest));
    ++(newest->manifest().step == 20 ? new_one : old_one);
    with_leftovers += posix_fs().list(root).size() > store.steps().size() ? 1 : 0;

    // The next run goes on in the same directory and leaves nothing of the dead one.
    store.drop_leftovers();
    save_sample(store, 30, 8);
    store.prune(30, 1, 0);
    EXPECT_EQ(posix_fs().list(root), std::vector<std::string>{"step-30"});
  }
  EXPECT_GT(old_one, 0);
  EXPECT_GT(new_one, 0);
  EXPECT_GT(with_leftovers, 0);
  fmt::print(
      "SIGKILL at each of {} file operations: {} left the old checkpoint, {} the new one, 0 none; "
      "{} left unfinished files, all removed by the next run\n",
      operations, old_one, new_one, with_leftovers);
}

}  // namespace
}  // namespace stretto::test
