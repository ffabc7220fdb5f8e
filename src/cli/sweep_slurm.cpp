#include "cli/sweep_slurm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "base/log.h"
#include "base/terminal.h"
#include "base/units.h"
#include "bench/launcher.h"
#include "bench/process.h"
#include "bench/safe_text.h"
#include "cli/sweep_progress.h"
#include "train/signals.h"

namespace stretto::cli {
namespace {

// The output of one of Slurm's programs; throws if it failed.
std::string output_of(const std::vector<std::string>& words, const SweepOptions& how) {
  std::vector<std::string> argv = {"/usr/bin/env"};
  argv.insert(argv.end(), words.begin(), words.end());
  ProcessOptions process;
  process.timeout = 60;
  process.log = join_path(how.directory, "slurm.out");
  const ProcessResult result = run_process(argv, process);
  const std::string text = file_tail(process.log, 4000);
  if (result.exit_code == 0 && result.signal == 0 && !result.timed_out) return text;
  throw Error(ExitCode::os_error, fmt::format("{} failed: {}", words[0], one_line(text, 300)),
              "is this a machine that submits to Slurm? `sinfo` must answer");
}

bool has_record(const PlannedPoint& p, const SweepOptions& how) {
  return posix_fs().info(record_path(how.directory, p)).has_value();
}

// Points that are submitted as one array: those with equal numbers of ranks and threads. Slurm has
// one time limit for all jobs of an array, so it must be that of the longest point.
struct Group {
  std::vector<std::string> ids;
  double seconds = 0;
};
using Groups = std::map<std::pair<int64_t, int64_t>, Group>;  // by ranks, threads

std::string submit(const Groups::value_type& group, const SweepOptions& how,
                   const SlurmOptions& options, const std::vector<std::string>& command) {
  SweepArray array;
  array.name = "stretto-sweep";
  array.ranks = group.first.first;
  array.threads = group.first.second;
  array.seconds = group.second.seconds;
  array.partition = options.partition;
  array.account = options.account;
  array.directory = how.directory;
  array.command = command;
  array.ids = group.second.ids;
  const std::string file =
      join_path(how.directory, fmt::format("ranks{}-threads{}.sbatch", array.ranks, array.threads));
  write_file_atomic(posix_fs(), file, array_file(array));
  std::string id = output_of({"sbatch", "--parsable", file}, how);
  id = id.substr(0, id.find_first_of(";\n "));
  fmt::print("job {}: {} of {} ({})\n", id, counted(std::ssize(array.ids), "point"),
             counted(array.ranks, "rank"), for_stdout(file));
  return id;
}

// Asks Slurm whether jobs are still running. If Slurm does not answer, they are taken to be: its
// controller may just be restarting.
class JobWatch {
 public:
  JobWatch(std::string ids, const SweepOptions& how) : ids_(std::move(ids)), how_(how) {}

  bool live() {
    if (ids_.empty()) return false;
    try {
      const std::string jobs = output_of({"squeue", "--noheader", "--jobs", ids_}, how_);
      answered_ = true;
      return jobs.find_first_not_of(" \n") != std::string::npos;
    } catch (const Error& error) {
      if (std::string_view(error.what()).find("Invalid job id") != std::string::npos) {
        return false;  // they have ended
      }
      if (answered_) spdlog::warn("{}; waiting until it answers", error.what());
      answered_ = false;
      return true;
    }
  }

 private:
  std::string ids_;
  const SweepOptions& how_;
  bool answered_ = true;
};

// The record of a job that ended without writing one.
RunRecord lost_record(const PlannedPoint& p, const SweepOptions& how) {
  RunRecord record = record_for(p, how);
  record.status = RunStatus::killed;
  record.exit_code = static_cast<int>(ExitCode::peer_lost);
  record.reason = "its Slurm job ended without a result: cancelled, or its machine failed";
  return record;
}

void wait_for(const std::vector<PlannedPoint>& points, const SweepOptions& how,
              const std::string& ids) {
  SweepProgress progress(points, how, stderr_is_terminal());
  install_stop_signals();
  JobWatch jobs(ids, how);
  std::vector<bool> shown(points.size());
  size_t left = points.size();
  while (left > 0) {
    if (stop_signal() != 0) {
      throw Error(ExitCode::resumable, "no longer waiting; the jobs go on",
                  fmt::format("`squeue --jobs {}` shows them; the same command waits again", ids));
    }
    const bool live = jobs.live();
    for (size_t i = 0; i < points.size(); ++i) {
      if (shown[i]) continue;
      if (!has_record(points[i], how)) {
        if (live) continue;
        write_record(posix_fs(), record_path(how.directory, points[i]),
                     lost_record(points[i], how));
      }
      progress.finished(points[i], read_record(posix_fs(), record_path(how.directory, points[i])),
                        "", true);
      shown[i] = true;
      --left;
    }
    if (left > 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

}  // namespace

void submit_sweep(const std::vector<PlannedPoint>& points, const SweepOptions& how,
                  const SlurmOptions& options, const std::vector<std::string>& command) {
  make_dirs(posix_fs(), join_path(how.directory, "points"));
  Groups groups;
  std::vector<const PlannedPoint*> submitted;
  for (const PlannedPoint& p : points) {
    if (!p.reason.empty()) {
      run_point(p, how);  // writes its row without running anything
    } else if (would_run(p, how)) {
      Group& group = groups[{p.config.world_size(), p.config.threads}];
      group.ids.push_back(p.id);
      group.seconds = std::max(group.seconds, time_limit(p, how));
      submitted.push_back(&p);
    }
  }
  std::vector<std::string> ids;
  for (const auto& group : groups) ids.push_back(submit(group, how, options, command));
  // Not before submission: points that Slurm refuses keep their old row.
  for (const PlannedPoint* p : submitted) clear_for_rerun(*p, how);
  const std::string all = fmt::format("{}", fmt::join(ids, ","));
  if (options.wait) return wait_for(points, how, all);
  if (ids.empty()) {
    fmt::print("every point has its row\n");
  } else {
    fmt::print("\n`squeue --jobs {}` shows them. When they have ended:\n", all);
  }
}

}  // namespace stretto::cli
