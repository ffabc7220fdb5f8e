// Signals that come while the system works on a file. The calls of the C library are replaced by
// ones that are interrupted as often as a test asks for; to this program alone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/fs.h"
#include "support/temp_dir.h"

namespace {
int interruptions = 0;
bool interrupted() { return interruptions > 0 && interruptions-- > 0; }
}  // namespace

extern "C" int fsync(int fd) {
  if (!interrupted()) return static_cast<int>(syscall(SYS_fsync, fd));
  errno = EINTR;
  return -1;
}

extern "C" int posix_fallocate(int fd, off_t offset, off_t bytes) {
  if (interrupted()) return EINTR;
  return syscall(SYS_fallocate, fd, 0, offset, bytes) == 0 ? 0 : errno;
}

namespace stretto {
namespace {

TEST(FsInterrupted, CallsAreRepeated) {
  const TempDir dir;
  const auto file = posix_fs().create(dir / "file");
  interruptions = 2;
  EXPECT_NO_THROW(file->preallocate(100));
  EXPECT_EQ(interruptions, 0);
  EXPECT_EQ(file->size(), 100);
  interruptions = 2;
  EXPECT_NO_THROW(file->sync());
  EXPECT_EQ(interruptions, 0);
  interruptions = 2;
  EXPECT_NO_THROW(posix_fs().sync_dir(dir.path()));
  EXPECT_EQ(interruptions, 0);
}

}  // namespace
}  // namespace stretto
