// Atomic files and directories when the power fails: the old content or the new, and the new one
// from the moment that commit() returns.
#include <gtest/gtest.h>

#include "support/fault_fs.h"
#include "support/memory_fs.h"

namespace stretto::test {
namespace {

constexpr const char* kDirectory = "/d";
constexpr const char* kPath = "/d/a";
const std::string kOld = "old", kNew(3000, 'n');

std::unique_ptr<MemoryFs> with_directory() {
  auto fs = std::make_unique<MemoryFs>();
  fs->make_dir(kDirectory);
  fs->sync_dir("/");
  return fs;
}

// Cuts the power at each operation of `write`, in many ways, and once after the last; `look` gets
// what is left, and whether `write` had returned.
template <typename Prepare, typename Write, typename Look>
void cut_everywhere(const Prepare& prepare, const Write& write, const Look& look) {
  bool returned = false;
  for (int n = 0; !returned; ++n) {
    for (uint64_t variant = 0; variant < 18; ++variant) {
      const auto memory = with_directory();
      prepare(*memory);
      FaultFs fs(*memory);
      fs.kill_at = n;
      try {
        write(fs);
        returned = true;
      } catch (const Killed&) {
        ASSERT_FALSE(returned) << "deaths are at the same operations every time";
      }
      const auto cut = variant == 0   ? MemoryFs::Cut::nothing
                       : variant == 1 ? MemoryFs::Cut::everything
                                      : MemoryFs::Cut::some;
      SCOPED_TRACE(fmt::format("power cut at operation {}, variant {}", n, variant));
      look(*memory->after_power_cut(cut, static_cast<uint64_t>(n) * 100 + variant), returned);
    }
    ASSERT_LT(n, 100);
  }
}

TEST(PowerCut, AFileHasItsOldContentOrItsNewOne) {
  const auto prepare = [](Fs& fs) { write_file_atomic(fs, kPath, kOld); };
  const auto write = [](Fs& fs) { write_file_atomic(fs, kPath, kNew); };
  int old_ones = 0, new_ones = 0;
  cut_everywhere(prepare, write, [&](MemoryFs& left, bool returned) {
    ASSERT_TRUE(left.info(kPath));
    const std::string content = read_file(left, kPath, 1 << 20);
    EXPECT_TRUE(content == kNew || (!returned && content == kOld)) << content.size();
    ++(content == kNew ? new_ones : old_ones);
  });
  EXPECT_GT(old_ones, 0);
  EXPECT_GT(new_ones, 18);
}

TEST(PowerCut, ADirectoryIsThereWithAllItsFilesOrNotAtAll) {
  const auto write = [](Fs& fs) {
    AtomicDirectory directory(fs, kPath);
    for (const char* name : {"one", "two"}) {
      const auto file = fs.create(join_path(directory.temp_path(), name));
      file->append(kNew);
      file->sync();
    }
    directory.commit();
  };
  int there = 0, missing = 0;
  cut_everywhere([](Fs&) {}, write,
                 [&](MemoryFs& left, bool returned) {
                   const bool found = left.info(kPath).has_value();
                   ++(found ? there : missing);
                   EXPECT_TRUE(found || !returned);
                   if (!found) return;
                   ASSERT_EQ(left.list(kPath), (std::vector<std::string>{"one", "two"}));
                   for (const char* name : {"one", "two"}) {
                     EXPECT_EQ(read_file(left, join_path(kPath, name), 1 << 20), kNew);
                   }
                 });
  EXPECT_GT(there, 18);
  EXPECT_GT(missing, 0);
}

}  // namespace
}  // namespace stretto::test
