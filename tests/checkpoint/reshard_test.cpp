// Any layout reads what any other wrote: every tensor comes back bit by bit.
#include <gtest/gtest.h>

#include "checkpoint/tiny_run.h"
#include "support/temp_dir.h"
#include "train/checkpoint.h"

namespace stretto::test {
namespace {

struct Layout {
  const char* name;
  int64_t dp, tp, pp;
  int zero;
  int64_t group = 0;  // ranks that share states; 0: all of dp
};

constexpr Layout kLayouts[] = {
    {"single", 1, 1, 1, 0},   {"dp2", 2, 1, 1, 0},        {"zero1", 2, 1, 1, 1},
    {"zero2", 4, 1, 1, 2},    {"zero3", 2, 1, 1, 3},      {"tp2", 1, 2, 1, 0},
    {"tp4", 1, 4, 1, 0},      {"pp2", 1, 1, 2, 0},        {"zero3tp2", 2, 2, 1, 3},
    {"zero1pp2", 2, 1, 2, 1}, {"hybrid2", 4, 1, 1, 2, 2},
};

Config with(Config config, const Layout& layout) {
  config.parallel.dp = layout.dp;
  config.parallel.tp = layout.tp;
  config.parallel.pp = layout.pp;
  config.parallel.zero = layout.zero;
  config.parallel.zero_group = layout.group;
  config.micro_batch = 1;
  return config;
}

int64_t bytes_of_shards(const std::string& directory) {
  int64_t sum = 0;
  for (const std::string& name : posix_fs().list(directory)) {
    if (name.ends_with(".safetensors")) sum += posix_fs().info(join_path(directory, name))->bytes;
  }
  return sum;
}

// Reads a checkpoint in a layout and saves it again from there.
void convert(const Checkpoint& from, const Config& config, Fs& fs) {
  run_thread_ranks(static_cast<int>(config.world_size()), [&](Comm& world) {
    Trainer trainer(config, world);
    restore(trainer, from);
    CheckpointSaver saver(trainer, fs, -1);
    saver.save();
    saver.require_saved();
    const auto report = saver.take_report();
    const std::string saved =
        join_path(checkpoint_root(config), fmt::format("step-{}", saver.saved_step()));
    EXPECT_EQ(report ? report->bytes : 0, bytes_of_shards(saved)) << world.rank();
  });
}

struct Reshard : ::testing::TestWithParam<Precision> {};

TEST_P(Reshard, EveryLayoutReadsEveryOther) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir / "original");
  config.precision = GetParam();
  config.train.steps = 2;
  config.micro_batch = 1;
  run(config);
  const Checkpoint original = checkpoint_of(config, 2);
  int pairs = 0;
  for (const Layout& writer : kLayouts) {
    Config written = with(config, writer);
    written.output = dir / writer.name;
    convert(original, written, posix_fs());
    const Checkpoint middle = checkpoint_of(written, 2);
    EXPECT_TRUE(differing(original, middle).empty()) << writer.name;
    EXPECT_EQ(original.manifest().state, middle.manifest().state);
    for (const Layout& reader : kLayouts) {
      Config read = with(config, reader);
      read.output = dir / (std::string(writer.name) + "-" + reader.name);
      convert(middle, read, posix_fs());
      EXPECT_TRUE(differing(original, checkpoint_of(read, 2)).empty())
          << writer.name << " to " << reader.name;
      ++pairs;
    }
  }
  fmt::print("{}: {} pairs of layouts, all bit-equal\n", name_of(config.precision), pairs);
}

INSTANTIATE_TEST_SUITE_P(All, Reshard, ::testing::Values(Precision::fp32, Precision::amp_bf16),
                         [](const auto& test) { return name_of(test.param); });

// Of all shards, without their headers.
int64_t data_bytes(const Checkpoint& checkpoint) {
  int64_t bytes = 0;
  for (const FileRecord& file : checkpoint.manifest().files) {
    const auto mapping = posix_fs().map(checkpoint.path() + "/" + file.name);
    bytes += file.bytes - open_safetensors(*mapping).data_begin;
  }
  return bytes;
}

// Data is written once: the bytes of all shards are those of one copy of the model.
TEST(Reshard, NothingIsWrittenTwice) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir / "original");
  config.train.steps = 1;
  config.micro_batch = 1;
  run(config);
  const Checkpoint original = checkpoint_of(config, 1);
  const auto values = [](const Checkpoint& checkpoint) {
    int64_t count = 0;
    for (const std::string& name : checkpoint.tensors()) count += checkpoint.reader(name).count();
    return count;
  };
  EXPECT_EQ(values(original), 3 * parameter_count(config.model));
  for (const Layout& layout : kLayouts) {
    Config cut = with(config, layout);
    cut.output = dir / layout.name;
    convert(original, cut, posix_fs());
    EXPECT_EQ(data_bytes(checkpoint_of(cut, 1)), 4 * values(original)) << layout.name;
  }
}

// What the planner counts with is what is written, in every precision.
TEST(Reshard, BytesPerParameterAreThoseOfThePlan) {
  for (const Precision precision : {Precision::fp32, Precision::amp_bf16, Precision::bf16,
                                    Precision::amp_fp16, Precision::amp_fp8}) {
    for (const Layout& layout : {kLayouts[0], kLayouts[8]}) {
      const TempDir dir(Where::memory);
      Config config = with(tiny_config(dir / "run"), layout);
      config.precision = precision;
      config.train.steps = 1;
      run(config);
      EXPECT_EQ(data_bytes(checkpoint_of(config, 1)),
                checkpoint_bytes(precision) * parameter_count(config.model))
          << name_of(precision) << " " << layout.name;
    }
  }
}

}  // namespace
}  // namespace stretto::test
