#include "base/fs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <thread>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

TEST(Fs, WritesAndReadsBack) {
  const TempDir dir;
  Fs& fs = posix_fs();
  write_file_atomic(fs, dir / "a", "one");
  write_file_atomic(fs, dir / "a", "two");
  EXPECT_EQ(read_file(fs, dir / "a", 100), "two");
  EXPECT_EQ(fs.list(dir.path()), std::vector<std::string>{"a"});
  EXPECT_GT(fs.free_space(dir.path()), 0);
  EXPECT_EQ(fs.info(dir / "a")->bytes, 3);
  EXPECT_FALSE(fs.info(dir / "b"));
  EXPECT_ERROR(read_file(fs, dir / "a", 2), ExitCode::bad_data, "2 allowed");
}

TEST(Fs, DroppedAtomicFileLeavesNothing) {
  const TempDir dir;
  dir.write("a", "old");
  {
    AtomicFile out(posix_fs(), dir / "a");
    out.file().append("new");
  }
  EXPECT_EQ(read_file(posix_fs(), dir / "a", 100), "old");
  EXPECT_EQ(dir.entries(), 1u);
}

TEST(Fs, LeftoversOfTheDeadGo) {
  const TempDir dir;
  const std::string mark = ".tmp-0123456789ab";
  const AtomicFile ours(posix_fs(), dir / "a");  // empty, and held
  AtomicFile other(posix_fs(), dir / "a");
  other.file().append("more to come");
  dir.write("a" + mark, "left by a process that was killed");
  dir.write("a.tmp-0000000000ef", "");  // it had not come to write
  for (const std::string& name :
       {"b" + mark, "a" + mark + "c", std::string("a.tmp-notes here 12")}) {
    dir.write(name, "not a file of ours");
  }
  std::filesystem::create_symlink(dir / ("b" + mark), dir / "a.tmp-00000000000f");
  ASSERT_EQ(dir.entries(), 8u);
  write_file_atomic(posix_fs(), dir / "a", "done");
  EXPECT_FALSE(posix_fs().info(dir / ("a" + mark)));
  EXPECT_FALSE(posix_fs().info(dir / "a.tmp-0000000000ef"));
  EXPECT_EQ(dir.entries(), 7u);
  EXPECT_TRUE(posix_fs().info(dir / "a.tmp-00000000000f")) << "we make no links";
  other.commit();
  EXPECT_EQ(read_file(posix_fs(), dir / "a", 100), "more to come");
}

TEST(Fs, LeftoversOfDirectoriesGo) {
  const TempDir dir;
  const std::string mark = ".tmp-0123456789ab";
  std::optional<AtomicDirectory> ours(std::in_place, posix_fs(), dir / "d");
  write_file_atomic(posix_fs(), ours->temp_path() + "/file", "more to come");
  std::filesystem::create_directories(dir / ("d" + mark + "/deep"));
  dir.write("d" + mark + "/deep/file", "left by a process that was killed");
  dir.write("d" + mark + mark, "");                       // its claim
  dir.write("d.tmp-0000000000ef" + mark, "");             // it had not come to make the directory
  std::filesystem::create_directory(dir / ("e" + mark));  // of another name
  std::filesystem::create_directory(dir / ("d" + mark + "c"));
  ASSERT_EQ(dir.entries(), 7u);  // with ours and its claim
  { const AtomicDirectory next(posix_fs(), dir / "d/"); }
  EXPECT_EQ(dir.entries(), 4u);
  EXPECT_FALSE(posix_fs().info(dir / ("d" + mark)));
  ours->commit();
  ours.reset();
  EXPECT_EQ(read_file(posix_fs(), dir / "d/file", 100), "more to come");
  EXPECT_EQ(dir.entries(), 3u);
}

// Not even where a file has only just been made, and is empty.
TEST(Fs, LeftoversAreNotThoseOfTheLiving) {
  const TempDir dir(Where::memory);
  std::atomic<bool> done = false;
  std::thread sweeper([&] {
    while (!done) const AtomicFile given_up(posix_fs(), dir / "a");
  });
  int written = 0;
  try {
    for (; written < 2000; ++written) AtomicFile(posix_fs(), dir / "a").commit();
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
  done = true;
  sweeper.join();
  EXPECT_EQ(written, 2000);
  EXPECT_EQ(dir.entries(), 1u);
}

TEST(Fs, NamesTheCause) {
  const TempDir dir;
  Fs& fs = posix_fs();
  dir.write("a", "x");
  EXPECT_ERROR(fs.open(dir / "missing"), ExitCode::no_input, "missing");
  EXPECT_ERROR(fs.map(dir / "missing"), ExitCode::no_input, "missing");
  EXPECT_ERROR(fs.open(dir.path()), ExitCode::bad_data, "directory");
  EXPECT_ERROR(fs.create(dir / "a"), ExitCode::cannot_create, "exists");
  EXPECT_ERROR(fs.create(dir / "no/such"), ExitCode::cannot_create, "create");
  EXPECT_ERROR(fs.make_dir(dir / "a"), ExitCode::cannot_create, "exists");
  EXPECT_ERROR(make_dirs(fs, dir / "a/b"), ExitCode::cannot_create, "a");
  EXPECT_EQ(fs_error(ENOENT, "create", "p/q", true).hint(), "create the directory first");
  EXPECT_EQ(fs_error(ENOTDIR, "use directory", "p", true).hint(),
            "choose another name, or remove what is there");
  EXPECT_EQ(fs_error(EACCES, "open", "p").code(), ExitCode::no_permission);
  EXPECT_EQ(fs_error(EIO, "read", "p").code(), ExitCode::io_error);
  EXPECT_TRUE(fs_error(ENOSPC, "write", "p").disk_full());
  EXPECT_EQ(fs_error(ENOSPC, "write", "p").code(), ExitCode::io_error);
}

TEST(Fs, FullDeviceIsNamed) {
  const auto full = posix_fs().open_append("/dev/full");
  try {
    full->append("x");
    FAIL() << "no error";
  } catch (const FsError& error) {
    EXPECT_TRUE(error.disk_full());
    EXPECT_EQ(error.code(), ExitCode::io_error);
  }
}

TEST(Fs, FifoDoesNotBlock) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);
  EXPECT_ERROR(posix_fs().open(dir / "fifo"), ExitCode::bad_data, "regular");
  EXPECT_ERROR(posix_fs().map(dir / "fifo"), ExitCode::bad_data, "regular");
}

TEST(Fs, NeverWritesThroughALink) {
  const TempDir dir;
  dir.write("target", "safe");
  ASSERT_EQ(symlink((dir / "target").c_str(), (dir / "link").c_str()), 0);
  EXPECT_ERROR(posix_fs().create(dir / "link"), ExitCode::cannot_create, "link");
  EXPECT_ERROR(posix_fs().open_append(dir / "link"), ExitCode::cannot_create, "link");
  EXPECT_EQ(read_file(posix_fs(), dir / "target", 10), "safe");
}

// Root may rename a file over a device: an output named /dev/null would take it from everybody.
TEST(Fs, OnlyFilesAreReplaced) {
  const TempDir dir;
  const std::string pipe = dir / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(pipe, dir / "link");
  std::filesystem::create_directory(dir / "folder");
  for (const char* name : {"pipe", "link"}) {
    EXPECT_ERROR(write_file_atomic(posix_fs(), dir / name, "x"), ExitCode::cannot_create,
                 "what is there is no file");
  }
  EXPECT_ERROR(write_file_atomic(posix_fs(), dir / "folder", "x"), ExitCode::cannot_create,
               "directory");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe) && std::filesystem::is_symlink(dir / "link"));
  EXPECT_EQ(posix_fs().list(dir.path()), (std::vector<std::string>{"folder", "link", "pipe"}));
}

// "Not a directory" and "no file" would be true, and no help.
TEST(Fs, ALinkWithoutItsTargetIsNamed) {
  const TempDir dir;
  std::filesystem::create_symlink(dir / "gone", dir / "link");
  for (const char* path : {"link", "link/", "link/deeper"}) {
    EXPECT_ERROR(make_dirs(posix_fs(), dir / path), ExitCode::cannot_create,
                 "link: it is a link whose target is missing");
  }
  EXPECT_ERROR(write_file_atomic(posix_fs(), dir / "link", "x"), ExitCode::cannot_create,
               "link: it is a link whose target is missing");
  std::filesystem::create_directory(dir / "gone");
  make_dirs(posix_fs(), dir / "link/deeper");
  EXPECT_TRUE(posix_fs().info(dir / "gone/deeper"));
}

TEST(Fs, AppendContinues) {
  const TempDir dir;
  posix_fs().open_append(dir / "log")->append("one ");
  const auto log = posix_fs().open_append(dir / "log");
  log->append("two");
  log->close();
  EXPECT_EQ(read_file(posix_fs(), dir / "log", 100), "one two");
}

TEST(Fs, RemoveTreeDoesNotFollowLinks) {
  const TempDir dir;
  Fs& fs = posix_fs();
  make_dirs(fs, dir / "keep");
  dir.write("keep/file", "x");
  make_dirs(fs, dir / "tree/deep/deeper");
  dir.write("tree/deep/file", "x");
  ASSERT_EQ(symlink((dir / "keep").c_str(), (dir / "tree/link").c_str()), 0);
  remove_tree(fs, dir / "tree");
  EXPECT_FALSE(fs.info(dir / "tree"));
  EXPECT_TRUE(fs.info(dir / "keep/file"));
}

TEST(Fs, FileThatShrinksUnderAMappingIsAnError) {
  const TempDir dir;
  const std::string path = dir.write("a", std::string(100000, 'x'));
  const auto mapped = posix_fs().map(path);
  std::string out(10, ' ');
  mapped->copy(out.data(), out.size(), 90000);
  EXPECT_EQ(out, std::string(10, 'x'));
  ASSERT_EQ(truncate(path.c_str(), 100), 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_ERROR(mapped->copy(out.data(), out.size(), 90000), ExitCode::bad_data, "shorter");
  }
  EXPECT_ERROR(mapped->require_whole(), ExitCode::bad_data, "shorter");
}

// No signal tells of bytes lost within a page: they read as zeros.
TEST(Fs, FileThatShrinksWithinAPageIsAnError) {
  const TempDir dir;
  const std::string path = dir.write("a", std::string(100, 'x'));
  const auto mapped = posix_fs().map(path);
  ASSERT_EQ(truncate(path.c_str(), 99), 0);
  EXPECT_ERROR(mapped->require_whole(), ExitCode::bad_data, "shorter than 100 bytes");
  ASSERT_EQ(truncate(path.c_str(), 200), 0);
  mapped->require_whole();
  // Another file of that name is no concern of the mapping.
  ASSERT_EQ(rename(dir.write("b", "").c_str(), path.c_str()), 0);
  mapped->require_whole();
  std::filesystem::remove(path);
  mapped->require_whole();
}

// Whatever begins or ends within a block, and however memory lies: the bytes are the same.
TEST(Fs, PastTheCacheTheBytesAreTheSame) {
  constexpr size_t kBlock = kDirectBlock;
  const TempDir dir;
  std::string memory(8 * kBlock, '\0');
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<char>(i * 31 + i / 97);
  const size_t first = (kBlock - reinterpret_cast<uintptr_t>(memory.data()) % kBlock) % kBlock;
  int files = 0;
  for (const size_t offset : {size_t{0}, size_t{64}, kBlock, kBlock + 4032}) {
    for (const size_t size :
         {size_t{0}, size_t{1}, size_t{100}, kBlock, 2 * kBlock, 3 * kBlock + 17}) {
      for (const size_t shift : {offset % kBlock, size_t{0}, size_t{8}}) {
        const std::string_view bytes(memory.data() + first + shift, size);
        const std::string path = dir / ("f" + std::to_string(files++));
        const auto file = posix_fs().create(path);
        file->bypass_cache();
        file->append(std::string(offset, 'h'));
        file->append(bytes);
        file->append("tail");
        file->sync();
        file->close();
        const std::string expected = std::string(offset, 'h') + std::string(bytes) + "tail";
        ASSERT_EQ(read_file(posix_fs(), path, 1 << 20), expected) << offset << " " << size;
        const auto again = posix_fs().open(path);
        again->bypass_cache();
        std::string read(12 * kBlock, '\0');
        const size_t aligned =
            (kBlock - reinterpret_cast<uintptr_t>(read.data()) % kBlock) % kBlock;
        const size_t got = again->read_at(read.data() + aligned, 8 * kBlock, 0);
        ASSERT_EQ(read.substr(aligned, got), expected) << offset << " " << size;
      }
    }
  }
}

TEST(Fs, Paths) {
  EXPECT_EQ(parent_dir("a"), ".");
  EXPECT_EQ(parent_dir("a/b"), "a");
  EXPECT_EQ(parent_dir("a/b/"), "a");
  EXPECT_EQ(parent_dir("/a"), "/");
  EXPECT_EQ(parent_dir("/"), "/");
  EXPECT_EQ(parent_dir("a//b"), "a");
  EXPECT_EQ(parent_dir("a/b//"), "a");
  EXPECT_EQ(parent_dir("//a"), "/");
  EXPECT_EQ(parent_dir("./a"), ".");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(join_path(".", "b"), "b");
  EXPECT_EQ(join_path("/", "b"), "/b");
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
}

}  // namespace
}  // namespace stretto
