// Every verb that prints --json, where the files it is about have names that are no UTF-8.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/sample_record.h"
#include "support/program.h"

namespace stretto::test {
namespace {

// Configurations are text, so that a run gets such a name afterwards.
struct OddNames {
  TempDir dir{Where::memory};
  std::string odd = dir / "\xff\xc3(";
  std::string text = odd + "/\xfe.txt", yaml = odd + "/\xfe.yaml", run = odd + "/run";
  std::string machine = odd + "/machine.json", records = odd + "/records", tables = odd + "/tables";

  OddNames() {
    std::filesystem::create_directories(records);
    write(text, std::string(2000, 'a'));
    write(yaml, "model: tiny\ntrain: {steps: 1, warmup: 2}\n");
    write(machine, R"({"cpu": {"usable": 2}, "memory": {"total_bytes": 8e9},)"
                   R"( "measured": {"gemm_flops": 2e11, "triad_bytes_per_second": 2e10}})");
    const Answer trained =
        stretto_run({"train", "tiny-100k", "seq_len=16", "global_batch=2", "micro_batch=1",
                     "train.steps=1", "threads=1", "output=" + dir / "run"});
    EXPECT_EQ(trained.code, 0) << trained.err;
    std::filesystem::rename(dir / "run", run);
    std::filesystem::copy(STRETTO_SOURCE_DIR "/reference", tables);
    for (int i = 0; i < 5; ++i) {  // the first differs from the others: its name is printed
      RunRecord r = sample_record();
      r.label.clear();
      r.machine = content_of(machine);
      r.config.seed = i;
      for (StepSample& step : r.steps) step.seconds = i == 0 ? 9 : 0.1;
      write_record(posix_fs(), records + "/\xfe" + std::to_string(i) + ".json", r);
    }
  }
  static void write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }
};

TEST(OddNames, JsonIsJsonWhateverFilesAreCalled) {
  const OddNames o;
  const std::string record = o.records + "/\xfe" + "1.json";
  const std::vector<std::string> commands[] = {
      {"bench", "tiny-100k", "seq_len=16", "micro_batch=1", "global_batch=1", "threads=1",
       "--machine", o.machine, "--label", "\xff", "--out", o.odd + "/bench.json", "--steps", "1",
       "--warmup", "0", "--seconds", "0"},
      {"bench", "--from", o.odd + "/bench.json", "--machine", o.machine, "--steps", "1", "--warmup",
       "0", "--seconds", "0"},
      {"checkpoint", "list", o.run},
      {"checkpoint", "verify", o.run},
      {"compare", record, o.records},
      {"config", "show", o.yaml},
      {"config", "check", o.yaml},
      {"data", "prepare", o.text, "-t", "bytes", "-o", o.odd + "/tokens"},
      {"data", "info", o.odd + "/tokens.bin"},
      {"doctor", "--quick", "--disk", o.odd},
      {"eval", o.run, o.text},
      {"export", o.run, "-o", o.odd + "/hf"},
      {"flops", o.yaml},
      {"import", o.odd + "/hf", "-o", o.odd + "/back"},
      {"plan", o.yaml, "--cluster", "h100", "--gpus", "8"},
      {"plan", "tiny", "--cluster", "local", "--machine", o.machine},
      {"plan", "calibrate", o.records},
      {"plan", "compare", o.records},
      {"reference", "check", "--dir", o.tables},
      {"reference", "show", "mpt", "--dir", o.tables},
  };
  for (std::vector<std::string> words : commands) {
    words.emplace_back("--json");
    const Answer answer = stretto_run(words);
    const std::string verb = words[0] + " " + words[1];
    EXPECT_EQ(answer.code, 0) << verb << "\n" << answer.err;
    EXPECT_TRUE(nlohmann::json::accept(answer.out)) << verb << "\n" << answer.out;
  }
}

}  // namespace
}  // namespace stretto::test
