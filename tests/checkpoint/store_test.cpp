// Death, power cuts and full disks at every file operation of a save and of the removal of an old
// checkpoint: a checkpoint that loads is always there.
#include "checkpoint/store.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "checkpoint/sample.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/memory_fs.h"

namespace stretto::test {
namespace {

constexpr const char* kRoot = "/runs/a/checkpoints";

std::unique_ptr<MemoryFs> with_step_10() {
  auto fs = std::make_unique<MemoryFs>();
  CheckpointStore store(*fs, kRoot);
  save_sample(store, 10);
  return fs;
}

int operations_in_memory() {
  MemoryFs fs;
  return operations_of_a_save(fs, kRoot);
}

// After whatever happened: what has the name of a checkpoint is one, the newest has its own values,
// and the run goes on.
int64_t recover(MemoryFs& fs, const std::string& story) {
  CheckpointStore store(fs, kRoot);
  for (const int64_t step : store.steps()) EXPECT_NO_THROW(store.open(step).verify()) << story;
  const auto newest = newest_verified(store);
  EXPECT_TRUE(newest) << story;
  if (!newest) return -1;
  EXPECT_TRUE(holds_sample(*newest)) << story;
  store.drop_leftovers();
  save_sample(store, 30, 8);
  store.prune(30, 1, 0);
  EXPECT_EQ(store.steps(), std::vector<int64_t>{30}) << story;
  EXPECT_EQ(fs.list(kRoot).size(), 1u) << story;
  return newest->manifest().step;
}

// It may well be whole: it is not taken for damaged, and no older one for the newest.
TEST(CheckpointStore, WhatMayNotBeReadIsAnError) {
  const auto memory = with_step_10();
  for (const char* kind : {"open", "map"}) {
    FaultFs fs(*memory);
    fs.fail_kind = kind;
    fs.fail_at = 0;
    fs.error_number = EACCES;
    const CheckpointStore store(fs, kRoot);
    EXPECT_ERROR(newest_verified(store), ExitCode::no_permission, "Permission denied");
    for (const int lacks : {EMFILE, ENFILE, ENOMEM}) {  // descriptors, memory
      fs.matching = 0;
      fs.error_number = lacks;
      EXPECT_ERROR(newest_verified(store), ExitCode::os_error, std::strerror(lacks));
    }
  }
}

// Resumed from as the newest, it would be repeated again and again.
TEST(CheckpointStore, AnotherStepUnderTheNameIsNoCheckpoint) {
  const auto fs = with_step_10();
  fs->rename(std::string(kRoot) + "/step-10", std::string(kRoot) + "/step-60");
  const CheckpointStore store(*fs, kRoot);
  EXPECT_ERROR(store.open(60), ExitCode::bad_data, "holds step 10");
  EXPECT_FALSE(newest_verified(store));
}

TEST(CheckpointStore, SavesAndLoads) {
  const auto fs = with_step_10();
  CheckpointStore store(*fs, kRoot);
  EXPECT_EQ(store.steps(), std::vector<int64_t>{10});
  const auto checkpoint = newest_verified(store);
  ASSERT_TRUE(checkpoint);
  EXPECT_TRUE(holds_sample(*checkpoint));
  EXPECT_EQ(checkpoint->manifest().config, R"({"seed":1})");
  EXPECT_ERROR(checkpoint->reader("other"), ExitCode::bad_data, "no tensor other");
  EXPECT_ERROR(Checkpoint::open(*fs, "/runs/a/none"), ExitCode::no_input, "none");
}

TEST(CheckpointStore, DeathAtEveryOperation) {
  const int operations = operations_in_memory();
  int64_t recovered[2] = {};
  for (int n = 0; n < operations; ++n) {
    const auto memory = with_step_10();
    FaultFs fs(*memory);
    fs.kill_at = n;
    EXPECT_THROW(save_and_prune(fs, kRoot), Killed);
    const int64_t step = recover(*memory, fmt::format("killed at operation {}", n));
    ++recovered[step == 20 ? 1 : 0];
  }
  EXPECT_GT(recovered[0], 0);
  EXPECT_GT(recovered[1], 0);
  fmt::print(
      "killed at each of {} operations: {} continued from the old checkpoint, {} from the "
      "new one, 0 lost\n",
      operations, recovered[0], recovered[1]);
}

TEST(CheckpointStore, PowerCutAtEveryOperation) {
  const int operations = operations_in_memory();
  constexpr int kSubsets = 24;
  int64_t states = 0;
  for (int n = 0; n <= operations; ++n) {
    for (int variant = 0; variant < kSubsets + 2; ++variant) {
      const auto memory = with_step_10();
      FaultFs fs(*memory);
      fs.kill_at = n;
      if (n < operations) {
        EXPECT_THROW(save_and_prune(fs, kRoot), Killed);
      } else {
        save_and_prune(fs, kRoot);
      }
      const auto cut = variant == 0   ? MemoryFs::Cut::nothing
                       : variant == 1 ? MemoryFs::Cut::everything
                                      : MemoryFs::Cut::some;
      const auto after = memory->after_power_cut(cut, static_cast<uint64_t>(n * 100 + variant));
      const std::string story = fmt::format("power cut at operation {}, variant {}", n, variant);
      const int64_t step = recover(*after, story);
      if (n == operations) {
        EXPECT_EQ(step, 20) << "a finished save is durable: " << story;
      }
      ++states;
      if (HasFailure()) return;  // one state tells enough
    }
  }
  fmt::print("power cut at each of {} operations: {} states, {} recovered\n", operations, states,
             states);
}

TEST(CheckpointStore, FirstSaveSurvivesPowerCutsToo) {
  MemoryFs memory;
  CheckpointStore store(memory, kRoot);
  save_sample(store, 10);
  const auto after = memory.after_power_cut(MemoryFs::Cut::nothing);
  CheckpointStore again(*after, kRoot);
  EXPECT_TRUE(newest_verified(again));
}

// Each operation in turn fails; the old checkpoint stays and no temporary bytes remain.
TEST(CheckpointStore, ErrorsAtEveryOperation) {
  const int operations = operations_in_memory();
  int64_t tried = 0, failed = 0;
  for (const int error : {ENOSPC, EIO, EDQUOT}) {
    for (int n = 0; n < operations; ++n) {
      const auto memory = with_step_10();
      FaultFs fs(*memory);
      fs.fail_at = n;
      fs.error_number = error;
      try {
        save_and_prune(fs, kRoot);
      } catch (const FsError& caught) {
        ++failed;
        EXPECT_EQ(caught.error_number(), error);
      }
      ++tried;
      recover(*memory, fmt::format("error {} at operation {}", error, n));
    }
  }
  fmt::print("{} single errors (ENOSPC, EIO, EDQUOT): {} saves failed, 0 checkpoints lost\n", tried,
             failed);
}

TEST(CheckpointStore, FullDiskLeavesNoBytes) {
  int writes = 0;
  for (const char* kind : {"write", "preallocate"}) {
    for (int n = 0;; ++n) {
      const auto memory = with_step_10();
      FaultFs fs(*memory);
      fs.fail_kind = kind;
      fs.fail_at = n;
      fs.error_number = ENOSPC;
      CheckpointStore store(fs, kRoot);
      try {
        save_sample(store, 20);
        break;  // fewer than n such operations
      } catch (const FsError& error) {
        EXPECT_TRUE(error.disk_full());
      }
      ++writes;
      EXPECT_EQ(memory->list(kRoot), std::vector<std::string>{"step-10"});
    }
  }
  EXPECT_GE(writes, 10);
  const auto memory = with_step_10();
  memory->free_bytes = 8192;  // the reserve is missing
  CheckpointStore store(*memory, kRoot);
  EXPECT_ERROR(store.begin(20, 1, 8192), ExitCode::io_error, "8.40 KiB");
  EXPECT_EQ(memory->list(kRoot), std::vector<std::string>{"step-10"});
  fmt::print("full disk at each of {} writes: temporary bytes left 0\n", writes);
}

TEST(CheckpointStore, KeepsWhatItShould) {
  MemoryFs fs;
  CheckpointStore store(fs, kRoot);
  for (int64_t step = 1; step <= 7; ++step) {
    save_sample(store, step);
    store.prune(step, 2, 3);
  }
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{3, 6, 7}));
}

// Before `step` the newest keep - 1 and multiples of keep_every stay. Later ones are of a future
// that this run has not reached again: they stay, whole or damaged, and count for nothing.
RC_GTEST_PROP(CheckpointStore, PrunesOnlyWhatIsBeforeTheStep, ()) {
  const std::set<int64_t> steps =
      *rc::gen::nonEmpty(rc::gen::container<std::set<int64_t>>(rc::gen::inRange<int64_t>(1, 20)));
  const int64_t step = *rc::gen::elementOf(steps);
  const int64_t keep = *rc::gen::inRange(1, 5), keep_every = *rc::gen::inRange(0, 4);
  MemoryFs fs;
  CheckpointStore store(fs, kRoot);
  for (const int64_t s : steps) save_sample(store, s);
  for (const int64_t s : steps) {
    if (s > step) fs.content(store.path_of(s) + "/manifest.json").clear();
  }
  store.prune(step, keep, keep_every);
  int64_t kept = 1;  // of those up to `step`
  std::vector<int64_t> expected;
  for (auto s = steps.rbegin(); s != steps.rend(); ++s) {
    const bool stays = *s >= step || kept++ < keep || (keep_every > 0 && *s % keep_every == 0);
    if (stays) expected.insert(expected.begin(), *s);
  }
  RC_ASSERT(store.steps() == expected);
}

TEST(CheckpointStore, RemovesNothingWhenTheNewOneIsDamaged) {
  MemoryFs fs;
  CheckpointStore store(fs, kRoot);
  save_sample(store, 1);
  save_sample(store, 2);
  fs.content(std::string(kRoot) + "/step-2/shard-00001.safetensors").back() ^= 1;
  EXPECT_ERROR(store.prune(2, 1, 0), ExitCode::bad_data, "optimizer.m.matrix");
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{1, 2}));
}

// Large files past the page cache: what is verified before others are removed is what the disk
// holds.
TEST(CheckpointStore, ShardsAreWrittenAndVerifiedPastTheCache) {
  const auto memory = with_step_10();
  FaultFs fs(*memory);
  std::vector<std::string> direct;
  fs.on_operation = [&](const std::string& kind, const std::string& path) {
    if (kind == "bypass_cache") direct.push_back(path.substr(path.find_last_of('/') + 1));
  };
  CheckpointStore store(fs, kRoot);
  save_sample(store, 20);
  const std::vector<std::string> shards = {"shard-00000.safetensors", "shard-00001.safetensors"};
  EXPECT_EQ(direct, shards);
  direct.clear();
  store.prune(20, 1, 0);
  EXPECT_EQ(direct, shards);
}

TEST(CheckpointStore, ReplacesADamagedOne) {
  MemoryFs fs;
  CheckpointStore store(fs, kRoot);
  save_sample(store, 1);
  fs.content(std::string(kRoot) + "/step-1/manifest.json").clear();
  EXPECT_FALSE(newest_verified(store));
  save_sample(store, 1);
  EXPECT_TRUE(newest_verified(store));
  EXPECT_EQ(fs.list(kRoot), std::vector<std::string>{"step-1"});
}

TEST(CheckpointStore, Names) {
  EXPECT_EQ(step_of_name("step-12"), 12);
  for (const char* name : {"step-", "step-x", "step-1.tmp-0", "step--1", "step-01", "other",
                           "step-99999999999999999999"}) {
    EXPECT_FALSE(step_of_name(name)) << name;
  }
}

// As `checkpoint list` prints it: all that ranks have written, not what one of them did.
TEST(CheckpointStore, TheSizeOfACheckpointIsThatOfItsShards) {
  const auto fs = with_step_10();
  const Checkpoint checkpoint = CheckpointStore(*fs, kRoot).open(10);
  ASSERT_EQ(checkpoint.manifest().files.size(), 2u);
  const std::string directory = std::string(kRoot) + "/step-10/";
  int64_t bytes = 0;
  for (const std::string& name : fs->list(directory)) {
    if (name != kManifestName) bytes += static_cast<int64_t>(fs->info(directory + name)->bytes);
  }
  EXPECT_EQ(checkpoint.manifest().bytes(), bytes);
}

}  // namespace
}  // namespace stretto::test
