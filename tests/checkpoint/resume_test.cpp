// Runs that are stopped and continued are the run that never stopped, bit by bit.
#include "train/resume.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "checkpoint/tiny_run.h"
#include "config/reader.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/no_threads.h"
#include "support/temp_dir.h"
#include "train/checkpoint.h"
#include "train/run_lock.h"

namespace stretto::test {
namespace {

// Stops after `step` by the file that asks for it.
RunOptions stop_after(const TempDir& dir, int64_t step) {
  RunOptions options;
  options.on_step = [&dir, step](const StepRecord& record) {
    if (record.step == step) dir.write("stop", "");
  };
  return options;
}

struct Precisions : ::testing::TestWithParam<Precision> {};

// Gradients of a step that is skipped may have no norm.
bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

TEST_P(Precisions, InterruptedRunsAreBitEqual) {
  const TempDir whole_dir(Where::memory);
  Config config = tiny_config(whole_dir.path());
  config.precision = GetParam();
  config.train.loss_scale = {0x1p22, 1, 4, 3};  // falls and rises within a few steps
  const TinyRun whole = run(config);
  ASSERT_EQ(whole.steps.size(), 12u);

  int bit_equal = 0;
  const int interrupts = long_tests() ? 20 : 4;
  for (int i = 0; i < interrupts; ++i) {
    const TempDir dir(Where::memory);
    config.output = dir.path();
    const int64_t first = 1 + 3 * i % 11;  // all of 1 to 11 in turn
    TinyRun part = run(config, stop_after(dir, first));
    ASSERT_EQ(part.code, ExitCode::resumable);
    ASSERT_EQ(std::ssize(part.steps), first);
    std::filesystem::remove(dir / "stop");
    const TinyRun rest = run(config);
    ASSERT_EQ(rest.code, ExitCode::ok);
    part.steps.insert(part.steps.end(), rest.steps.begin(), rest.steps.end());
    ASSERT_EQ(part.steps.size(), whole.steps.size());
    bool equal = true;
    for (size_t s = 0; s < whole.steps.size(); ++s) {
      equal = equal && part.steps[s].loss == whole.steps[s].loss &&
              same(part.steps[s].grad_norm, whole.steps[s].grad_norm) &&
              part.steps[s].loss_scale == whole.steps[s].loss_scale &&
              part.steps[s].skipped == whole.steps[s].skipped &&
              part.steps[s].learning_rate == whole.steps[s].learning_rate;
    }
    Config original = config;
    original.output = whole_dir.path();
    const Checkpoint a = checkpoint_of(original, 12), b = checkpoint_of(config, 12);
    equal = equal && differing(a, b).empty() && a.manifest().state == b.manifest().state;
    bit_equal += equal ? 1 : 0;
  }
  EXPECT_EQ(bit_equal, interrupts);
  fmt::print("{}: {} interrupted runs, {} bit-equal to the one that never stopped\n",
             name_of(config.precision), interrupts, bit_equal);
}

INSTANTIATE_TEST_SUITE_P(All, Precisions,
                         ::testing::Values(Precision::fp32, Precision::amp_bf16,
                                           Precision::amp_fp16, Precision::bf16),
                         [](const auto& test) { return name_of(test.param); });

TEST(Resume, OverflowedStepsAreRemembered) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir.path());
  config.precision = Precision::amp_fp16;
  config.train.loss_scale.initial = 1e9;  // overflows at first
  config.train.steps = 4;
  const TinyRun result = run(config);
  const TrainerState state = state_of(checkpoint_of(config, 4).manifest());
  EXPECT_GT(state.skipped_total, 0);
  EXPECT_EQ(state.updates, 4 - state.skipped_total);
  EXPECT_LT(state.loss_scale.scale, 1e9);
}

TEST(Resume, FallsBackToThePreviousGoodOne) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir.path());
  config.checkpoint.every = 4;
  run(config);
  const Checkpoint before = checkpoint_of(config, 12);
  const std::string shard = before.path() + "/shard-00000.safetensors";
  {
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-5, std::ios::end);
    file.put('\x55');
  }
  const TinyRun again = run(config);
  ASSERT_EQ(again.steps.size(), 4u);  // from step 8
  EXPECT_EQ(again.steps.front().step, 9);
  checkpoint_of(config, 12);

  std::filesystem::remove_all(dir / "checkpoints/step-8");
  std::filesystem::resize_file(dir / "checkpoints/step-12/manifest.json", 100);
  EXPECT_ERROR(run(config), ExitCode::bad_data, "is damaged");
}

// Each rank looks at its share of the files; what one of them finds counts for all.
TEST(Resume, FallsBackWhicheverRankFindsTheDamage) {
  for (const char* part : {"0", "1"}) {
    const TempDir dir(Where::memory);
    Config config = tiny_config(dir.path());
    config.parallel.dp = 2;
    config.parallel.zero = 1;
    config.checkpoint = {2, 2, 0, false};
    config.train.steps = 4;
    run(config);
    const std::string step = dir / "checkpoints/step-4/";
    std::fstream file(step + "shard-0000" + part + ".safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-5, std::ios::end);
    file.put('\x55');
    file.close();
    const TinyRun again = run(config);
    ASSERT_EQ(again.steps.size(), 2u) << part;
    EXPECT_EQ(again.steps.front().step, 3);
  }
}

// The limit of this process: the checkpoint is as good as before.
TEST(Resume, WithoutMeansToReadTheNewestOneTakesNoOlderOne) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir.path());
  config.checkpoint.every = 4;
  run(config);
  config.train.steps = 14;
  FaultFs fs(posix_fs());
  RunOptions options;
  options.fs = &fs;
  fs.fail_kind = "map";
  fs.fail_at = 0;
  for (const int lacks : {EMFILE, ENOMEM}) {
    fs.matching = 0;
    fs.error_number = lacks;
    EXPECT_ERROR(run(config, options), ExitCode::os_error, "cannot map");
  }
  const TinyRun rest = run(config);
  ASSERT_EQ(rest.steps.size(), 2u);
  EXPECT_EQ(rest.steps.front().step, 13);
}

TEST(Resume, KeepsWhatWasAskedFor) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir.path());
  config.checkpoint = {2, 2, 6, true};
  run(config);
  EXPECT_EQ(CheckpointStore(posix_fs(), checkpoint_root(config)).steps(),
            (std::vector<int64_t>{6, 10, 12}));
  EXPECT_TRUE(run(config).steps.empty()) << "nothing left to do";
}

TEST(Resume, ConflictsAreErrors) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir.path());
  config.train.steps = 2;
  run(config);
  Config other = config;
  other.model.layers = 3;
  EXPECT_ERROR(run(other), ExitCode::bad_config, "model.layers=3 (checkpoint: 2)");
  other = config;
  other.seed = 5;
  other.precision = Precision::amp_bf16;
  EXPECT_ERROR(run(other), ExitCode::bad_config, "precision=amp_bf16 (checkpoint: fp32), seed=5");
  other = config;
  other.train.steps = 3;
  other.train.lr = 1e-3;
  other.log.every = 7;
  other.threads = 2;
  EXPECT_EQ(run(other).steps.size(), 1u);
  const ConfigDifferences differences = compare_configs(config, other, false, false);
  EXPECT_TRUE(differences.conflicts.empty());
  EXPECT_EQ(differences.changed.size(), 4u);
}

// What decides over the model, the order of the tokens or the arithmetic may not change under a
// run.
TEST(Resume, WhatARunIsMadeOfIsBinding) {
  const auto changed = [](const char* word) {
    const Config saved = load_config({"tiny"}).config, given = load_config({"tiny", word}).config;
    return compare_configs(saved, given, false, false);
  };
  for (const char* word : {"model.hidden=64", "model.vocab=300", "model.heads=2",
                           "model.positions=99", "model.position_kind=alibi", "model.bias=false",
                           "model.tied_embedding=false", "seq_len=7", "precision=bf16", "seed=9",
                           "data.path=a.bin", "data.eval_fraction=0.5", "data.format=u16"}) {
    EXPECT_FALSE(changed(word).conflicts.empty()) << word;
  }
  for (const char* word : {"global_batch=16", "train.steps=7", "train.lr=1", "parallel.dp=2",
                           "micro_batch=3", "checkpoint.every=3", "device=cuda"}) {
    EXPECT_TRUE(changed(word).conflicts.empty()) << word;
    EXPECT_FALSE(changed(word).changed.empty()) << word;
  }
}

// Of the same tokens names may change.
TEST(Resume, NamesOfDataMayChange) {
  Config config, other;
  config.data.path = "a.bin";
  other.data.path = "b.bin";
  EXPECT_EQ(compare_configs(config, other, false, false).conflicts.size(), 1u);
  EXPECT_TRUE(compare_configs(config, other, false, true).conflicts.empty());
  other.data.eval_path = "c.bin";
  EXPECT_EQ(compare_configs(config, other, false, false).conflicts.size(), 2u);
  EXPECT_TRUE(compare_configs(config, other, false, true).conflicts.empty());
  other.data.eval_fraction = 0.1;
  EXPECT_EQ(compare_configs(config, other, false, true).conflicts.size(), 1u);
}

TEST(Resume, FullDiskKeepsTraining) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir.path());
  config.checkpoint = {2, 2, 0, false};
  config.train.steps = 6;
  FaultFs fs(posix_fs());
  RunOptions options;
  options.fs = &fs;
  options.on_step = [&](const StepRecord& record) {
    fs.error_number = record.step == 4 ? ENOSPC : 0;  // the disk is full for a while
    fs.fail_kind = "preallocate";
    fs.fail_at = fs.matching;
  };
  EXPECT_EQ(run(config, options).steps.size(), 6u);
  EXPECT_EQ(CheckpointStore(posix_fs(), checkpoint_root(config)).steps(),
            (std::vector<int64_t>{2, 6}));

  config.train.steps = 20;
  options.on_step = {};
  fs.error_number = ENOSPC;
  fs.fail_at = 0;
  fs.matching = 0;
  fs.fail_from_then_on = true;
  EXPECT_ERROR(run(config, options), ExitCode::io_error, "3 saves in a row");
  EXPECT_EQ(checkpoint_of(config, 6).manifest().step, 6);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir / "checkpoints"), {}), 2);
}

// Three failed saves end a run if they come in a row: a good one between them begins the count
// anew.
TEST(Resume, FailedSavesCountInARow) {
  const std::vector<int64_t> bad = {1, 2, 4, 5, 7};
  for (const bool async : {false, true}) {
    const TempDir dir(Where::memory);
    Config config = tiny_config(dir.path());
    config.checkpoint = {1, 20, 0, async};
    config.train.steps = 8;
    FaultFs fs(posix_fs());
    fs.on_operation = [&](const std::string& kind, const std::string& path) {
      for (const int64_t step : bad) {
        const std::string name = fmt::format("step-{}.", step);
        if (kind == "create" && path.find(name) != std::string::npos) {
          throw fs_error(ENOSPC, kind, path);
        }
      }
    };
    RunOptions options;
    options.fs = &fs;
    EXPECT_EQ(run(config, options).steps.size(), 8u);
    EXPECT_EQ(CheckpointStore(posix_fs(), checkpoint_root(config)).steps(),
              (std::vector<int64_t>{3, 6, 8}));
  }
}

// The disk is full for `times` tries to save step 4, the last one.
RunOptions full_at_the_end(FaultFs& fs, int times, int& tries) {
  fs.on_operation = [&tries, times](const std::string& kind, const std::string& path) {
    if (kind != "create" || path.find("step-4") == std::string::npos) return;
    if (!path.ends_with("shard-00000.safetensors") || ++tries > times) return;
    throw fs_error(ENOSPC, kind, path);
  };
  RunOptions options;
  options.fs = &fs;
  return options;
}

TEST(Resume, TheLastSaveIsTriedAgain) {
  for (const bool async : {false, true}) {
    for (const int dp : {1, 2}) {
      const TempDir dir(Where::memory);
      Config config = tiny_config(dir.path());
      config.parallel.dp = dp;
      config.checkpoint = {2, 2, 0, async};
      config.train.steps = 4;
      const CheckpointStore store(posix_fs(), checkpoint_root(config));
      FaultFs fs(posix_fs());
      int tries = 0;
      EXPECT_ERROR(run(config, full_at_the_end(fs, 100, tries)), ExitCode::io_error,
                   "step 4 could not be saved");
      EXPECT_EQ(tries, 11);
      EXPECT_EQ(store.steps(), std::vector<int64_t>{2});
      EXPECT_EQ(posix_fs().list(store.root()).size(), 1u) << "nothing is left of the tries";
      tries = 0;
      EXPECT_EQ(run(config, full_at_the_end(fs, 5, tries)).code, ExitCode::ok);
      EXPECT_EQ(tries, 6);
      EXPECT_EQ(store.steps(), (std::vector<int64_t>{2, 4}));
    }
  }
}

// What has the name of the run directory is what others look at, and must be kept from.
TEST(Resume, ADirectoryThatIsMovedAwayIsMadeAnew) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir / "run");
  config.checkpoint = {2, 2, 0, false};
  config.train.steps = 6;
  RunOptions options;
  options.on_step = [&](const StepRecord& record) {
    if (record.step == 3) std::filesystem::rename(dir / "run", dir / "moved");
    if (record.step != 5) return;
    EXPECT_ERROR(RunLock{config.output}, ExitCode::cannot_create, "in use by another run");
    const RunLock free(dir / "moved");
  };
  EXPECT_EQ(run(config, options).steps.size(), 6u);
  EXPECT_EQ(CheckpointStore(posix_fs(), checkpoint_root(config)).steps(),
            (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(CheckpointStore(posix_fs(), dir / "moved/checkpoints").steps(),
            std::vector<int64_t>{2});
  const std::string lines = read_file(posix_fs(), dir / "run/metrics.jsonl", 1 << 20);
  EXPECT_TRUE(lines.starts_with("{\"step\":4,\"checkpoint\"")) << lines;
  EXPECT_NE(lines.find("{\"step\":6,"), std::string::npos) << lines;
}

// Nor does a run write where another has begun meanwhile.
TEST(Resume, ADirectoryThatAnotherRunHasTakenEndsTheRun) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir / "run");
  config.checkpoint = {2, 2, 0, false};
  std::optional<RunLock> other;
  RunOptions options;
  options.on_step = [&](const StepRecord& record) {
    if (record.step != 3) return;
    std::filesystem::rename(dir / "run", dir / "moved");
    other.emplace(config.output);
  };
  EXPECT_ERROR(run(config, options), ExitCode::cannot_create, "in use by another run");
  EXPECT_FALSE(std::filesystem::exists(dir / "run/checkpoints"));
}

// Room is not what every save wants for.
TEST(Resume, ASaveThatFailsSaysWhatHelps) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir.path());
  config.checkpoint = {2, 2, 0, false};
  config.train.steps = 4;
  FaultFs fs(posix_fs());
  fs.on_operation = [](const std::string& kind, const std::string& path) {
    if (kind == "create" && path.find("step-4") != std::string::npos) {
      throw fs_error(EMFILE, kind, path);
    }
  };
  RunOptions options;
  options.fs = &fs;
  try {
    run(config, options);
    FAIL() << "it was not saved";
  } catch (const Error& error) {
    EXPECT_TRUE(error.hint().starts_with("raise the limit on open files")) << error.hint();
    EXPECT_NE(error.hint().find("step-2, 2 steps before"), std::string::npos) << error.hint();
  }
}

// Whether all ranks give signs of life while one rank's file moves on slowly. Looks at the rows of
// the watchdog whenever the file moves, and slows it down until two signs of each rank were seen.
class SignsOfLife {
 public:
  explicit SignsOfLife(std::string kind) : kind_(std::move(kind)) {}

  void look(const StatusBoard& board, const std::string& kind, const std::string& path) {
    const bool shard = path.find("step-4") != std::string::npos && path.ends_with("safetensors");
    if (kind != kind_ || !shard || seen_ >= 2) return;
    std::vector<int64_t> beats;
    for (int r = 0; r < board.count; ++r) beats.push_back(board.rows[r].beat_ns.load());
    const bool all_moved = std::equal(beats.begin(), beats.end(), before_.begin(), before_.end(),
                                      [](int64_t now, int64_t then) { return now > then; });
    seen_ += all_moved ? 1 : 0;
    if (all_moved || before_.empty()) before_ = beats;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  int seen() const { return seen_; }

 private:
  std::string kind_;
  std::vector<int64_t> before_;
  int seen_ = 0;
};

// Rank 0 alone writes and reads back; rank 1 waits for it.
TEST(Resume, ASlowDiskIsNoHang) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir.path());
  config.parallel.dp = 2;
  config.checkpoint = {2, 1, 0, false};
  config.train.steps = 4;
  FaultFs fs(posix_fs());
  RunOptions options;
  options.fs = &fs;
  options.print = false;
  SignsOfLife writing("write"), reading("read");
  run_thread_ranks(2, [&](Comm& world) {
    if (world.rank() == 0) {
      fs.on_operation = [&](const std::string& kind, const std::string& path) {
        writing.look(world.monitor().board(), kind, path);
        reading.look(world.monitor().board(), kind, path);
      };
    }
    world.barrier();
    run_training(config, world, options);
  });
  EXPECT_EQ(writing.seen(), 2);
  EXPECT_EQ(reading.seen(), 2);
}

TEST(Resume, VerifyingTellsOfEveryChunk) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir.path());
  config.train.steps = 1;
  run(config);
  const Checkpoint checkpoint = checkpoint_of(config, 1);
  size_t moved = 0;
  checkpoint.verify(0, 1, [&] { ++moved; });
  EXPECT_EQ(moved, checkpoint.tensors().size());  // each is less than a chunk
  moved = 0;
  const auto world = make_self_comm();
  Trainer trainer(config, *world);
  restore(trainer, checkpoint, [&] { ++moved; });
  EXPECT_GE(moved, checkpoint.tensors().size());
}

// Death at every file operation of a run that saves; the same command again ends bit-equal.
TEST(Resume, DeathAtEveryOperationOfARun) {
  const TempDir whole_dir(Where::memory);
  Config config = tiny_config(whole_dir.path());
  config.checkpoint = {2, 1, 0, false};
  config.train.steps = 4;
  FaultFs counting(posix_fs());
  RunOptions options;
  options.fs = &counting;
  run(config, options);
  const Config whole = config;
  const int stride = long_tests() ? 1 : 17;
  int recovered = 0, tried = 0;
  for (int n = 0; n < counting.operations; n += stride) {
    ++tried;
    const TempDir dir(Where::memory);
    config.output = dir.path();
    FaultFs fs(posix_fs());
    fs.kill_at = n;
    options.fs = &fs;
    try {
      run(config, options);
    } catch (const std::exception&) {
      // What happens to a dead process is nobody's business; what it leaves behind is.
    }
    run(config);
    recovered += differing(checkpoint_of(whole, 4), checkpoint_of(config, 4)).empty() ? 1 : 0;
  }
  EXPECT_EQ(recovered, tried);
  fmt::print("runs killed at {} of {} file operations: {} ended bit-equal after a restart\n", tried,
             counting.operations, recovered);
}

// The worker's thread cannot be had: the step waits for the save instead.
TEST(Resume, SavesWithoutAThread) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir / "run");
  config.checkpoint = {4, 3, 0, true};
  std::optional<NoThreads> none;
  RunOptions options;
  options.on_step = [&](const StepRecord& record) {
    if (record.step == 4) none.emplace();
    if (record.step == 6) none.reset();
  };
  EXPECT_EQ(run(config, options).code, ExitCode::ok);
  for (const int64_t step : {4, 8, 12})
    EXPECT_EQ(checkpoint_of(config, step).manifest().step, step);
}

}  // namespace
}  // namespace stretto::test
