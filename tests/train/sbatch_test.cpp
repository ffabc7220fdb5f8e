// Nothing in a configuration word, name or path can run a command: the files are executed by a
// shell with an srun that only records its arguments.
#include "train/sbatch.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/shell_text.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

SbatchJob job() {
  SbatchJob job;
  job.name = "run-1";
  job.program = "/opt/stretto/bin/stretto";
  job.words = {"tiny.yaml"};
  job.directory = "/";
  return job;
}

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  chmod(path.c_str(), 0755);
}

// Runs the file; returns srun's arguments, split. `code`: what srun answers.
struct Executed {
  std::vector<std::string> arguments;
  int code = 0;
  bool requeued = false;
  std::vector<std::string> files;  // created by the run beside the records
};

Executed execute(const std::string& text, int srun_code = 0, int restarts = 0) {
  TempDir dir;
  const std::string d = dir.path();
  mkdir((d + "/bin").c_str(), 0755);
  mkdir((d + "/cwd").c_str(), 0755);
  write(d + "/bin/srun",
        fmt::format("#!/bin/bash\nprintf '%s\\0' \"$@\" > '{}/argv'\nexit {}\n", d, srun_code));
  write(d + "/bin/scontrol", fmt::format("#!/bin/bash\necho \"$@\" > '{}/requeue'\n", d));
  write(d + "/job.sh", text);
  const std::string command = fmt::format(
      "cd '{0}/cwd' && env -i PATH='{0}/bin':/usr/bin:/bin SLURM_JOB_ID=7 "
      "SLURM_RESTART_COUNT={1} bash '{0}/job.sh' "
      "> /dev/null 2>&1",
      d, restarts);
  Executed out;
  out.code = WEXITSTATUS(std::system(command.c_str()));
  std::istringstream words(read(d + "/argv"));
  for (std::string word; std::getline(words, word, '\0');) out.arguments.push_back(word);
  out.requeued = read(d + "/requeue") == "requeue 7\n";
  const std::string list = fmt::format("ls -A '{0}/cwd' > '{0}/list'", d);
  EXPECT_EQ(std::system(list.c_str()), 0);
  std::istringstream files(read(d + "/list"));
  for (std::string file; std::getline(files, file);) out.files.push_back(file);
  return out;
}

TEST(Sbatch, HoldsWhatARequeuedJobNeeds) {
  SbatchJob one = job();
  one.nodes = 3;
  one.tasks_per_node = 4;
  one.cpus_per_task = 2;
  const std::string text = sbatch_file(one);
  for (const char* part :
       {"#!/bin/bash\n", "--job-name=run-1\n", "--nodes=3\n", "--ntasks-per-node=4\n",
        "--cpus-per-task=2\n", "--time=24:00:00\n", "#SBATCH --signal=USR1@120\n",
        "#SBATCH --requeue\n", "#SBATCH --open-mode=append\n", "--output=run-1-%j.log\n",
        "srun --kill-on-bad-exit=1"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

// Wherever it is submitted: in execute() that is another directory.
TEST(Sbatch, RunsWhereItsPathsBegin) {
  TempDir run;
  SbatchJob one = job();
  one.directory = run.path();
  one.output = "out";
  EXPECT_TRUE(execute(sbatch_file(one), 75).requeued);
  mkdir((run.path() + "/out").c_str(), 0755);
  write(run.path() + "/out/stop", "");
  EXPECT_FALSE(execute(sbatch_file(one), 75).requeued) << "it looks into out/ of its directory";
  one.directory = run.path() + "/gone";
  const Executed lost = execute(sbatch_file(one), 75);
  EXPECT_EQ(lost.code, 66);
  EXPECT_FALSE(lost.requeued);
  one.directory = "relative";
  EXPECT_ERROR(sbatch_file(one), ExitCode::usage, "directory");
}

TEST(Sbatch, RequeuesOnlyWhatIsResumable) {
  const std::string text = sbatch_file(job());
  for (const int code : {0, 1, 64, 65, 66, 70, 74, 75, 78, 79, 80, 81, 130}) {
    const Executed run = execute(text, code);
    EXPECT_EQ(run.code, code);
    EXPECT_EQ(run.requeued, code == 75 || code == 81) << code;
  }
}

// Killed by the system, or crashed: the launcher answers 128 + signal. That may be for ever.
TEST(Sbatch, RequeuesARankThatWasKilledTenTimes) {
  const std::string text = sbatch_file(job());
  for (const int code : {134, 137, 139, 143}) {
    EXPECT_TRUE(execute(text, code).requeued) << code;
    EXPECT_TRUE(execute(text, code, 9).requeued) << code;
    EXPECT_FALSE(execute(text, code, 10).requeued) << code;
  }
  EXPECT_TRUE(execute(text, 81, 99).requeued);
  EXPECT_FALSE(execute(text, 81, 100).requeued);
}

// A file `stop` in its directory ends a run for good, until somebody removes it.
TEST(Sbatch, ARunThatIsToStopIsNotRequeued) {
  TempDir run;
  SbatchJob one = job();
  one.output = run.path();
  EXPECT_TRUE(execute(sbatch_file(one), 75).requeued);
  write(run.path() + "/stop", "");
  EXPECT_FALSE(execute(sbatch_file(one), 75).requeued);
}

const char* const kInjections[] = {
    "x=$(touch owned)",
    "x=`touch owned`",
    "x; touch owned",
    "x && touch owned",
    "x | touch owned",
    "x > owned",
    "'; touch owned; '",
    "\"; touch owned; \"",
    "x'$(touch owned)'",
    "$HOME",
    "${IFS}",
    "a b  c",
    "*",
    "~",
    "\\",
    "x\\'; touch owned #",
    "!!",
    "# no comment",
    "%j",
    "(touch owned)",
    "{a,b}",
    "<(touch owned)",
    "",
    "ünïcödé=\xf0\x9f\x8e\xb5",
    "x=\xff\xfe",
};

TEST(Sbatch, WordsArriveAsTheyAre) {
  for (const char* text : kInjections) {
    SbatchJob one = job();
    one.words = {"tiny.yaml", text, "last=1"};
    one.program = std::string("/opt/") + text + "/stretto";
    one.output = std::string("runs/") + text;
    const Executed run = execute(sbatch_file(one));
    ASSERT_GE(run.arguments.size(), 5u) << text;
    const std::vector<std::string> tail(run.arguments.end() - 5, run.arguments.end());
    EXPECT_EQ(tail, std::vector<std::string>({one.program, "train", "tiny.yaml", text, "last=1"}));
    EXPECT_TRUE(run.files.empty()) << text << " created " << run.files.front();
  }
}

// The signal comes two minutes before the end, or three: the job would save, end and start again
// for ever.
TEST(Sbatch, TimeLimitsAreLongerThanTheSignalBeforeThem) {
  const std::pair<const char*, int64_t> good[] = {
      {"4", 240},          {"04:01", 241},        {"00:04:01", 241},   {"1-0", 86400},
      {"2-01:30", 178200}, {"1-00:00:05", 86405}, {"24:00:00", 86400}, {"0", 0}};
  for (const auto& [text, seconds] : good) {
    EXPECT_EQ(seconds_of_limit(text), seconds) << text;
    SbatchJob one = job();
    one.time = text;
    EXPECT_NE(sbatch_file(one).find(fmt::format("--time={}\n", text)), std::string::npos);
  }
  for (const char* text : {"00:01:30", "2", "3:59", "00:02:01", "3", "0-00:02"}) {
    SbatchJob one = job();
    one.time = text;
    EXPECT_ERROR(sbatch_file(one), ExitCode::usage, "time limit");
  }
  for (const char* text : {"", "a", ":", "1:", "1::2", "1:2:3:4", "1-2-3", "-1", "1-", "1:2-3"}) {
    EXPECT_EQ(seconds_of_limit(text), std::nullopt) << text;
  }
}

TEST(Sbatch, NamesAreHeldToAnAlphabet) {
  for (const char* text : kInjections) {
    SbatchJob one = job();
    one.name = text;
    EXPECT_ERROR(sbatch_file(one), ExitCode::usage, "run name");
    one = job();
    one.time = text;
    EXPECT_ERROR(sbatch_file(one), ExitCode::usage, "time limit");
    if (*text == '\0') continue;
    one = job();
    one.partition = text;
    EXPECT_ERROR(sbatch_file(one), ExitCode::usage, "partition");
    one = job();
    one.account = text;
    EXPECT_ERROR(sbatch_file(one), ExitCode::usage, "account");
  }
  for (const char* good : {"a", "gpt2-124m", "run_3.yaml", "A.b-c"})
    EXPECT_TRUE(is_safe_name(good));
  for (const char* bad : {"..", "a..b", "-x", ".hidden", "a/b", "a\n#SBATCH --uid=0"}) {
    EXPECT_FALSE(is_safe_name(bad)) << bad;
  }
  EXPECT_TRUE(is_safe_name(std::string(128, 'a')));
  EXPECT_FALSE(is_safe_name(std::string(129, 'a')));
}

TEST(Sbatch, ControlCharactersAndOptionsAreRefused) {
  for (const char* text : {"a\nb", "a\rb", "\033[31m", "a\n#SBATCH --uid=0", "--foo", "-x"}) {
    SbatchJob one = job();
    one.words = {text};
    EXPECT_ERROR(sbatch_file(one), ExitCode::usage, "word");
  }
  SbatchJob one = job();
  one.program = "/opt/a\ntouch owned";
  EXPECT_ERROR(sbatch_file(one), ExitCode::usage, "program");
  one = job();
  one.nodes = 0;
  EXPECT_ERROR(sbatch_file(one), ExitCode::usage, "count");
}

}  // namespace
}  // namespace stretto
