#include "train/sbatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/shell_text.h"

namespace stretto {
namespace {

void require(bool good, const char* what, const std::string& value, const char* hint) {
  if (good) return;
  throw Error(ExitCode::usage, fmt::format("{} '{}' in a batch file", what, value), hint);
}

bool has_control_characters(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

void require_safe(const SbatchJob& job) {
  constexpr const char* kLetters =
      "use letters, digits, '.', '_' and '-', at most 128 of them, no '..', and a letter, digit or "
      "'_' first";
  require(is_safe_name(job.name), "run name", job.name, kLetters);
  const auto limit = seconds_of_limit(job.time);
  require(limit.has_value(), "time limit", job.time,
          "write it as hours:minutes:seconds or minutes");
  // With a shorter limit the signal could come at once, and the job would save, end and start again
  // for ever: Slurm may send the signal a minute early, and may count limits in whole minutes.
  require(*limit == 0 || *limit >= kSignalBefore + 120, "time limit", job.time,
          "give four minutes or more: the job saves two or three minutes before its end");
  require(job.partition.empty() || is_safe_name(job.partition), "partition", job.partition,
          kLetters);
  require(job.account.empty() || is_safe_name(job.account), "account", job.account, kLetters);
  require(is_safe_name(job.mpi), "MPI type", job.mpi, "use one that `srun --mpi=list` shows");
  require(job.directory.starts_with('/') && !has_control_characters(job.directory), "directory",
          job.directory, "start from a directory without control characters in its path");
  require(!job.program.empty() && !has_control_characters(job.program), "program", job.program,
          "move the program to a path without control characters");
  for (const std::string& word : job.words) {
    require(!has_control_characters(word), "word", word, "remove its control characters");
    require(word.empty() || word.front() != '-', "word", word, "words must not begin with '-'");
  }
  for (const int64_t count : {job.nodes, job.tasks_per_node}) {
    require(count >= 1, "count", std::to_string(count), "use at least 1 node and 1 task per node");
  }
}

std::string directives(const SbatchJob& job) {
  std::string out;
  const auto add = [&](const std::string& line) { out += "#SBATCH --" + line + "\n"; };
  add("job-name=" + job.name);
  add(fmt::format("nodes={}", job.nodes));
  add(fmt::format("ntasks-per-node={}", job.tasks_per_node));
  if (job.cpus_per_task > 0) add(fmt::format("cpus-per-task={}", job.cpus_per_task));
  if (job.gpus_per_node > 0) add(fmt::format("gpus-per-node={}", job.gpus_per_node));
  add("time=" + job.time);
  if (!job.partition.empty()) add("partition=" + job.partition);
  if (!job.account.empty()) add("account=" + job.account);
  out += "# Two minutes before the time limit every rank gets SIGUSR1, saves and ends with 75.\n";
  add(fmt::format("signal=USR1@{}", kSignalBefore));
  add("requeue");
  add("open-mode=append");
  add("output=" + job.name + "-%j.log");
  return out;
}

}  // namespace

std::optional<int64_t> seconds_of_limit(const std::string& text) {
  constexpr size_t kMostDigits = 9;
  std::vector<int64_t> numbers(1, 0);
  std::string shape;  // the separators between the numbers
  size_t digits = 0;
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      numbers.back() = 10 * numbers.back() + (c - '0');
      if (++digits > kMostDigits) return std::nullopt;
    } else {
      if (digits == 0) return std::nullopt;
      shape += c;
      numbers.push_back(0);
      digits = 0;
    }
  }
  if (digits == 0) return std::nullopt;
  // Without days, a single number is minutes and two are minutes and seconds.
  constexpr int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  constexpr std::pair<const char*, std::array<int64_t, 4>> kForms[] = {
      {"", {kMinute}},
      {":", {kMinute, 1}},
      {"::", {kHour, kMinute, 1}},
      {"-", {kDay, kHour}},
      {"-:", {kDay, kHour, kMinute}},
      {"-::", {kDay, kHour, kMinute, 1}}};
  for (const auto& [form, units] : kForms) {
    if (shape != form) continue;
    int64_t seconds = 0;
    for (size_t i = 0; i < numbers.size(); ++i) seconds += numbers[i] * units[i];
    return seconds;
  }
  return std::nullopt;
}

std::string sbatch_file(const SbatchJob& job) {
  require_safe(job);
  std::string command = shell_quoted(job.program) + " train";
  for (const std::string& word : job.words) command += " \\\n    " + shell_quoted(word);
  const std::string goes_on =
      job.output.empty() ? "" : fmt::format("[ ! -e {} ] && ", shell_quoted(job.output + "/stop"));
  return fmt::format(
      "#!/bin/bash\n"
      "{}\n"
      "# Paths below begin where this file was written, wherever it is submitted.\n"
      "cd {} || exit 66\n\n"
      "# A rank that fails ends the whole step; the others get 60 s to follow one that has ended.\n"
      "{}srun --kill-on-bad-exit=1 --wait=60 --mpi={} \\\n  {}\n"
      "code=$?\n\n"
      "# 75: stopped early on request; 81: a rank was lost; 128 + signal: one was killed or "
      "crashed,\n"
      "# which may happen again. All go on from the last checkpoint, but not where the run's\n"
      "# directory has a file `stop`. Everything else would fail again.\n"
      "case $code in\n"
      "  75 | 81) restarts=100 ;;\n"
      "  134 | 137 | 139 | 143) restarts=10 ;;\n"
      "  *) restarts=0 ;;\n"
      "esac\n"
      "if {}[ \"${{SLURM_RESTART_COUNT:-0}}\" -lt \"$restarts\" ]; then\n"
      "  scontrol requeue \"$SLURM_JOB_ID\"\n"
      "fi\n"
      "exit \"$code\"\n",
      directives(job), shell_quoted(job.directory),
      // Since Slurm 22.05 srun does not take this over from sbatch.
      job.cpus_per_task > 0 ? "export SRUN_CPUS_PER_TASK=\"$SLURM_CPUS_PER_TASK\"\n" : "", job.mpi,
      command, goes_on);
}

}  // namespace stretto
