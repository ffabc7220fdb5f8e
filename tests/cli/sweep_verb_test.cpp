// sweep: what its plan says of points that have run, and which of them are submitted again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/fs.h"
#include "support/program.h"

namespace stretto::test {
namespace {

TEST(SweepVerb, ThePlanCountsWhatIsLeft) {
  const TempDir dir{Where::memory};
  const std::string spec =
      dir.write("s.yaml",
                "base: tiny-100k\nset: {seq_len: 16, global_batch: 2, micro_batch: 1, threads: 1}\n"
                "points: [{name: one}, {name: two, seed: 2}, {name: long, seq_len: 65536}]\n"
                "steps: 2\nseconds: 0\n");
  const std::vector<std::string> words = {"sweep", spec, "--out", dir / "out"};
  const auto answer = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    const Answer a = stretto_run(all);
    EXPECT_EQ(a.code, 0) << a.err;
    return a.out;
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  answer({"--run", "--only", "one"});
  std::string plan = answer({});
  EXPECT_TRUE(contains(plan, "3 points, 1 to run, 1 finished before, 1 that cannot")) << plan;
  EXPECT_TRUE(contains(plan, "Add --run")) << plan;
  const std::string search = std::getenv("PATH");
  const std::string here = std::filesystem::path(STRETTO_PROGRAM).parent_path();
  ::setenv("PATH", (here + ":" + search).c_str(), 1);
  const std::string ran = answer({"--run"});  // where the shell finds it, it is called by its name
  ::setenv("PATH", search.c_str(), 1);
  EXPECT_TRUE(contains(ran, "next: stretto collect ")) << ran;
  plan = answer({});
  EXPECT_TRUE(contains(plan, "3 points, 0 to run, 2 finished before, 1 that cannot")) << plan;
  EXPECT_TRUE(contains(plan, "Nothing is left: stretto collect")) << plan;
  plan = answer({"--steps", "9"});
  EXPECT_TRUE(contains(plan, "3 points, 2 to run, 1 that cannot")) << plan;
  // A point is its name and its configuration: neither alone is found again.
  dir.write("s.yaml",
            "base: tiny-100k\nset: {seq_len: 16, global_batch: 2, micro_batch: 1, threads: 1}\n"
            "points: [{name: uno}, {name: two, seed: 3}, {name: two, seed: 2}]\n"
            "steps: 2\nseconds: 0\n");
  plan = answer({});
  EXPECT_TRUE(contains(plan, "3 points, 2 to run, 1 finished before, 0 that cannot")) << plan;
}

// By their predictions, on a machine that is known to be slow, and then on a fast one.
TEST(SweepVerb, WarnsOfPointsThatCannotEndInTime) {
  const TempDir dir{Where::memory};
  std::filesystem::create_directory(dir / "out");
  const std::string spec =
      dir.write("s.yaml",
                "base: tiny\nset: {threads: 1}\nsteps: 100\nseconds: 0\ntimeout: 1000min\n"
                "points: [{name: short, timeout: 1min}, {name: long, seed: 2},\n"
                "  {name: cannot, parallel.tp: 3, timeout: 1s}]\n");
  const auto warnings = [&](const char* flops, std::vector<std::string> more) {
    dir.write(
        "out/machine.json",
        std::string(
            R"({"cpu": {"usable": 2}, "memory": {"total_bytes": 8e9}, "measured": {"gemm_flops": )") +
            flops + R"(, "triad_bytes_per_second": 1e11}})");
    more.insert(more.begin(), {"sweep", spec, "--out", dir / "out"});
    const Answer a = stretto_run(more);
    EXPECT_EQ(a.code, 0) << a.err;
    return a.err;
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  std::string said = warnings("2e9", {});
  EXPECT_TRUE(contains(said, "warning: short: 100 timed steps of ")) << said;
  EXPECT_TRUE(contains(said, "s will not end within its limit of 1 min 00 s: raise timeout"))
      << said;
  EXPECT_FALSE(contains(said, "long:") || contains(said, "cannot:")) << said;
  said = warnings("2e9", {"--timeout", "10s"});
  EXPECT_TRUE(contains(said, "short:") && contains(said, "long:")) << said;
  said = warnings("2e9", {"--steps", "1", "--seconds", "70"});
  EXPECT_TRUE(contains(said, "short: 70 s of timed steps will not end within")) << said;
  EXPECT_FALSE(contains(said, "long:")) << said;
  EXPECT_EQ(warnings("1e13", {"--seconds", "70"}), "") << "a thousand steps are enough";
  EXPECT_EQ(warnings("1e13", {}), "");
}

// sbatch and squeue of a cluster that takes a job and forgets it, or runs it at once.
class FakeSlurm {
 public:
  FakeSlurm() : path_(std::getenv("PATH")) {
    put("squeue", "exit 0");
    runs(false);
    ::setenv("PATH", (dir_.path() + ":" + path_).c_str(), 1);
  }
  ~FakeSlurm() { ::setenv("PATH", path_.c_str(), 1); }
  FakeSlurm(const FakeSlurm&) = delete;
  FakeSlurm& operator=(const FakeSlurm&) = delete;

  void runs(bool at_once) {
    put("sbatch",
        std::string(at_once ? "SLURM_ARRAY_TASK_ID=0 bash \"$2\" > /dev/null 2>&1\n" : "") +
            "echo 7");
  }
  void refuses() { put("sbatch", "echo no queue >&2; exit 1"); }
  // The job runs only when it has been asked for twice; the first time there is no answer.
  void answers_late() {
    const std::string job = dir_ / "job", asked = dir_ / "asked";
    put("sbatch", "cp \"$2\" " + job + "; echo 7");
    put("squeue", "if [ ! -e " + asked + " ]; then touch " + asked +
                      "; echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; "
                      "exit 1; fi\n"
                      "[ ! -e " +
                      job + " ] || SLURM_ARRAY_TASK_ID=0 bash " + job +
                      " > /dev/null 2>&1\n"
                      "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  }

 private:
  void put(const char* name, const std::string& script) {
    const std::string file = dir_.write(name, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  TempDir dir_;
  std::string path_;
};

// A spec of one point; its machine is known.
std::string one_point(const TempDir& dir) {
  std::filesystem::create_directory(dir / "out");
  dir.write(
      "out/machine.json",
      R"({"cpu":{"model":"Paper CPU","usable":2},"measured":{"fma_flops":2e11,"gemm_flops":2e11}})");
  return dir.write("s.yaml",
                   "base: tiny-100k\nset: {seq_len: 16, global_batch: 2, micro_batch: 1}\n"
                   "points: [{name: one}]\nsteps: 2\nseconds: 0\n");
}

TEST(SweepVerb, ASweepThatMeasuresNothingIsNoSuccess) {
  const TempDir dir;
  one_point(dir);
  const std::string head = "base: tiny-100k\nset: {seq_len: 16, global_batch: 2, micro_batch: 1}\n";
  const std::string none =
      dir.write("none.yaml", head +
                                 "points: [{name: cut, parallel.tp: 3}, {name: large, "
                                 "memory_limit: 1MiB}]\nsteps: 2\nseconds: 0\n");
  for (int i = 0; i < 2; ++i) {  // the second time all points have their rows
    const Answer a = stretto_run({"sweep", none, "--out", dir / "out", "--run"});
    EXPECT_EQ(a.code, 1) << a.out << a.err;
    EXPECT_TRUE(a.says("no point of this sweep was measured")) << a.err;
  }
  const std::string table = stretto_run({"collect", dir / "out"}).out;
  EXPECT_NE(table.find("rejected"), std::string::npos) << table;
  EXPECT_NE(table.find("OOM"), std::string::npos) << table;
  const std::string one =
      dir.write("one.yaml", head +
                                "points: [{name: cut, parallel.tp: 3}, {name: good}]\n"
                                "steps: 2\nseconds: 0\n");
  EXPECT_EQ(stretto_run({"sweep", one, "--out", dir / "out", "--run"}).code, 0);
}

// A table that gets a row per finished point; where a name leaves no room, it has lines of its own.
TEST(SweepVerb, RowsFitTheWidth) {
  const TempDir dir;
  one_point(dir);
  const std::string name = "a-point-with-a-name-that-takes-more-than-half-of-eighty-columns";
  for (const bool alone : {false, true}) {
    const std::string spec = dir.write(
        "s.yaml",
        "base: tiny-100k\nset: {seq_len: 16, global_batch: 2, micro_batch: 1}\npoints: "
        "[{name: cut, parallel.tp: 3}, {name: good}" +
            (alone ? ", {name: " + name + ", parallel.tp: 7}" : "") + "]\nsteps: 2\nseconds: 0\n");
    const Answer a = stretto_run({"sweep", spec, "--out", dir / "out", "--run"});
    std::istringstream lines(a.out.substr(0, a.out.find("next:")));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << a.out;
    EXPECT_NE(a.out.find("rejected  " + (dir / "s.yaml")), std::string::npos) << a.out;
    EXPECT_EQ(a.out.find("]  " + name + "\n") != std::string::npos, alone) << a.out;
    EXPECT_EQ(a.out.find("]  good   ok ") == std::string::npos, alone) << a.out;
    EXPECT_NE(a.out.find(" tokens/s   sec/it     +- predicted  error"), std::string::npos) << a.out;
  }
}

// A controller that is restarted says nothing about the jobs.
TEST(SweepVerb, AJobIsNotLostWhileSlurmDoesNotAnswer) {
  const TempDir dir;
  const std::string spec = one_point(dir);
  FakeSlurm slurm;
  slurm.answers_late();
  const Answer a =
      stretto_run({"sweep", spec, "--out", dir / "out", "--run", "--launcher", "slurm", "--wait"});
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_NE(a.out.find("one    ok"), std::string::npos) << a.out << a.err;
  EXPECT_NE(a.err.find("waiting until it answers"), std::string::npos) << a.err;
}

TEST(SweepVerb, RetrySubmitsWhatFailedToSlurm) {
  const TempDir dir;
  const std::string spec = one_point(dir);
  FakeSlurm slurm;
  const auto answer = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"sweep", spec,         "--out", dir / "out",
                                    "--run", "--launcher", "slurm"};
    all.insert(all.end(), more.begin(), more.end());
    const Answer a = stretto_run(all);
    EXPECT_EQ(a.code, 0) << a.err;
    return a.out + a.err;
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  std::string said = answer({"--wait"});
  EXPECT_TRUE(contains(said, "job 7: 1 point")) << said;
  EXPECT_TRUE(contains(said, "killed")) << said;  // the job left nothing
  EXPECT_TRUE(contains(said, " memory/rank\n")) << said;
  said = answer({});
  EXPECT_TRUE(contains(said, "every point has its row")) << said;
  slurm.refuses();
  EXPECT_NE(
      stretto_run({"sweep", spec, "--out", dir / "out", "--run", "--launcher", "slurm", "--retry"})
          .code,
      0);
  said = answer({});
  EXPECT_TRUE(contains(said, "every point has its row")) << said;  // the old one is still there
  slurm.runs(true);
  said = answer({"--retry", "--wait", "--partition=night", "--account=us"});
  EXPECT_TRUE(contains(said, "job 7: 1 point")) << said;
  EXPECT_TRUE(contains(said, "one    ok")) << said;
  EXPECT_FALSE(contains(said, "killed")) << said;  // not the old row
  said = answer({"--retry"});
  EXPECT_TRUE(contains(said, "every point has its row")) << said;
}

// Slurm ends all jobs of an array at one time, though points may have times of their own.
TEST(SweepVerb, AnArrayLastsAsLongAsItsLongestPoint) {
  const TempDir dir;
  one_point(dir);
  const std::string spec = dir.write(
      "s.yaml",
      "base: tiny-100k\nset: {seq_len: 16, global_batch: 2, micro_batch: 1, threads: 1}\n"
      "points: [{name: plain}, {name: long, seed: 2, timeout: 40min},\n"
      "  {name: short, seed: 3, timeout: 1min}, {name: two, parallel.dp: 2, timeout: 1min}]\n"
      "steps: 2\nseconds: 0\ntimeout: 5min\n");
  FakeSlurm slurm;
  const Answer a =
      stretto_run({"sweep", spec, "--out", dir / "out", "--run", "--launcher", "slurm"});
  EXPECT_EQ(a.code, 0) << a.err;
  const auto minutes = [&](const char* file) {
    const std::string text = read_file(posix_fs(), dir / ("out/" + std::string(file)), 1 << 20);
    const std::string before = "#SBATCH --time=";
    const size_t at = text.find(before);
    return at == std::string::npos ? 0 : std::stoi(text.substr(at + before.size()));
  };
  EXPECT_EQ(minutes("ranks1-threads1.sbatch"), 42);  // two to start and to write the row
  EXPECT_EQ(minutes("ranks2-threads1.sbatch"), 3);
}

// As under some job managers: then the system forgets how our children ended.
TEST(SweepVerb, RunsWhereSigchldIsIgnored) {
  const TempDir dir;
  const std::string spec = one_point(dir);
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  Program sweep({"sweep", spec, "--out", dir / "out", "--run"});
  std::signal(SIGCHLD, before);
  const Answer a = sweep.wait();
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_NE(a.out.find("one    ok"), std::string::npos) << a.out << a.err;
}

}  // namespace
}  // namespace stretto::test
