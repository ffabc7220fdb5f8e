#include "cli/run_notes.h"

#include <gtest/gtest.h>

#include "config/reader.h"
#include "support/temp_dir.h"

namespace stretto::cli {
namespace {

TEST(RunNotes, TheStartSaysWhatTrainsOnWhat) {
  EXPECT_EQ(start_note(load_config({"tiny", "global_batch=8"}).config, 3 << 20),
            "tiny: 842,496 parameters in fp32 on cpu, 3.00 MiB per rank; 8 sequences of 128 random "
            "tokens (data.path is not set) a step");
  const std::string one = start_note(load_config({"tiny", "global_batch=1"}).config, 0);
  EXPECT_NE(one.find("; 1 sequence of 128 random"), std::string::npos) << one;
  const std::string cut = start_note(
      load_config({"tiny", "parallel.dp=2", "parallel.tp=4", "parallel.zero=1", "data.path=my.txt"})
          .config,
      0);
  EXPECT_NE(cut.find(", 8 ranks (dp 2 x tp 4, ZeRO 1), "), std::string::npos) << cut;
  EXPECT_NE(cut.find(" of 128 tokens of my.txt a step"), std::string::npos) << cut;
}

TEST(RunNotes, ZeroThatShardsNothingIsSaid) {
  EXPECT_EQ(zero_note(load_config({"tiny"}).config), "");
  EXPECT_EQ(zero_note(load_config({"tiny", "parallel.zero=3", "parallel.dp=2"}).config), "");
  EXPECT_EQ(zero_note(load_config({"tiny", "parallel.zero=3"}).config),
            "parallel.zero=3 has nothing to shard with parallel.dp: 1; set parallel.zero=0, or "
            "parallel.dp=2 or more");
}

// The default of a step is 8 sequences, which is little for a GPU.
TEST(RunNotes, AGpuWithLittleToDoIsSaid) {
  const auto note = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"mpt-125m", "device=cuda", "seq_len=1024"});
    return idle_gpu_note(load_config(words).config);
  };
  const std::string more = "which leave much of a GPU idle; use ";
  EXPECT_EQ(note({}), "micro_batch=1 gives products of 1024 rows, " + more +
                          "micro_batch=64 global_batch=64, or micro_batch=auto for the most that "
                          "fits");
  EXPECT_EQ(note({"global_batch=256", "micro_batch=8"}),
            "micro_batch=8 gives products of 8192 rows, " + more +
                "micro_batch=64, or micro_batch=auto for the most that fits");
  // Two replicas take half of the batch each.
  EXPECT_NE(note({"parallel.dp=2", "micro_batch=8"}).find("of 4096 rows"), std::string::npos);
  EXPECT_NE(note({"parallel.dp=2", "micro_batch=8"}).find("global_batch=128, or"),
            std::string::npos);
  // tp makes products narrower.
  EXPECT_EQ(note({"global_batch=64", "micro_batch=32"}), "");
  EXPECT_NE(note({"global_batch=64", "micro_batch=32", "parallel.tp=2"}), "");
  for (const char* enough : {"micro_batch=64", "micro_batch=22"}) {
    EXPECT_EQ(note({"global_batch=64", enough}), "") << enough;
  }
  EXPECT_NE(note({"global_batch=64", "micro_batch=21"}), "");
  EXPECT_EQ(note({"global_batch=8", "device=cpu"}), "");
  EXPECT_EQ(idle_gpu_note(load_config({"tiny", "device=cuda"}).config), "") << "a trial";
  EXPECT_EQ(note({"global_batch=512", "micro_batch=auto"}), "");
  EXPECT_NE(note({"micro_batch=auto"}).find("; use global_batch=64 or more"), std::string::npos);
  EXPECT_EQ(idle_gpu_note(load_config({"mpt-3b", "device=cuda", "micro_batch=8"}).config), "");
}

TEST(RunNotes, DocumentsReadAsOneTextAreSaid) {
  const TempDir dir;
  for (const char* name : {"a.jsonl", "a.ndjson", "a.json"}) {
    const std::string file = dir.write(name, "[{\"text\": \"one\"}]");
    const std::string note = json_note(file, TokenFormat::detect, "--format bytes");
    EXPECT_NE(note.find("stretto data prepare " + file), std::string::npos) << note;
    EXPECT_NE(note.find("; --format bytes says that"), std::string::npos) << note;
    EXPECT_EQ(json_note(file, TokenFormat::bytes, ""), "");  // asked for
  }
  EXPECT_EQ(json_note(dir.write("a.txt", "one"), TokenFormat::detect, ""), "");
  EXPECT_EQ(json_note(dir / "corpus.json", TokenFormat::detect, ""), "");  // corpus.json.bin, .idx
}

TEST(RunNotes, BusyCoresAreSaid) {
  const CoreUse alone{2, 2, 0.05, 0}, shared{2, 2, 0.9, 0}, room{4, 2, 1.9, 0.1};
  EXPECT_EQ(busy_note(alone), "");
  EXPECT_EQ(busy_note(room), "");  // others have the cores that nobody wanted
  EXPECT_EQ(busy_note({}), "");    // nothing is known
  const std::string note = busy_note(shared);
  EXPECT_NE(note.find("other programs took 0.9 of 2 cores"), std::string::npos) << note;
}

}  // namespace
}  // namespace stretto::cli
