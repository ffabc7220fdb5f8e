#include "bench/sweep.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/log.h"
#include "base/units.h"
#include "bench/launcher.h"
#include "bench/measure.h"
#include "bench/process.h"
#include "bench/survey.h"

namespace stretto {
namespace {

constexpr size_t kTailBytes = 4000;
constexpr double kLauncherGrace = 3;  // seconds

// Held by whoever runs the point. It is not close-on-exec, so the run itself holds it as well: if a
// sweep is killed, its run keeps others away until it has ended.
class PointLock {
 public:
  explicit PointLock(const std::string& path)
      : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0640)) {
    if (fd_ < 0) {
      throw Error(ExitCode::cannot_create, fmt::format("{}: {}", path, std::strerror(errno)),
                  "choose a directory that you may write to");
    }
    held_ = flock(fd_, LOCK_EX | LOCK_NB) == 0;
  }
  ~PointLock() { close(fd_); }
  PointLock(const PointLock&) = delete;
  PointLock& operator=(const PointLock&) = delete;

  bool held() const { return held_; }

 private:
  int fd_;
  bool held_ = false;
};

std::string point_directory(const std::string& directory, const PlannedPoint& point) {
  return join_path(join_path(directory, "points"), point.id);
}

std::string machine_path(const std::string& directory) {
  return join_path(directory, "machine.json");
}

std::vector<std::string> child_argv(const PlannedPoint& point, const SweepOptions& options,
                                    const std::string& out) {
  std::vector<std::string> argv = words_for_ranks(options.launch, point.config.world_size());
  argv.insert(argv.end(), {options.program, "bench"});
  argv.insert(argv.end(), point.point.words.begin(), point.point.words.end());
  const std::vector<std::string> rest = {"--out",     out,
                                         "--machine", machine_path(options.directory),
                                         "--label",   point.point.label,
                                         "--steps",   fmt::format("{}", options.steps),
                                         "--seconds", fmt::format("{}", options.seconds)};
  argv.insert(argv.end(), rest.begin(), rest.end());
  return argv;
}

// Both are lower bounds, so a run with more steps counts as well.
bool has_enough(const RunRecord& record, const SweepOptions& options) {
  if (record.status == RunStatus::stopped) return false;
  if (record.status != RunStatus::ok) return true;
  const std::vector<double> timed = record.timed_seconds();
  if (std::ssize(timed) < options.steps) return false;
  const double sum = std::accumulate(timed.begin(), timed.end(), 0.0);
  constexpr double kRounding = 1e-6;
  return sum >= options.seconds * (1 - kRounding) || std::ssize(record.steps) >= kMostSteps;
}

// None also for a damaged record: the point counts as not run.
std::optional<RunRecord> stored_record(const PlannedPoint& point, const SweepOptions& options) {
  const std::string path = record_path(options.directory, point);
  if (!posix_fs().info(path)) return std::nullopt;
  try {
    return read_record(posix_fs(), path);
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_data) throw;
    return std::nullopt;
  }
}

// Where to keep a record that does not count, so that the next one can take its place.
std::string set_aside(const PlannedPoint& point, const SweepOptions& options, const char* name) {
  const std::string aside = join_path(point_directory(options.directory, point), name);
  posix_fs().rename(record_path(options.directory, point), aside);
  return printable(aside);
}

// The last error that the program itself printed, if any: ": cannot write ...".
std::string last_error(const std::string& log) {
  constexpr std::string_view kBegin = "stretto: ";
  const size_t at = log.rfind(kBegin);
  if (at == std::string::npos) return "";
  const size_t from = at + kBegin.size();
  return ": " + log.substr(from, log.find('\n', from) - from);
}

// Fills in a record for a child that ended without writing one.
void describe_end(RunRecord& record, const ProcessResult& ended, double timeout) {
  const int exit_code = ended.exit_code, signal = ended.signal;
  record.exit_code = exit_code;
  if (ended.timed_out) {
    record.status = RunStatus::timeout;
    record.reason = fmt::format("not finished after {}; ended", format_seconds(timeout));
  } else if (signal == SIGKILL) {
    record.status = RunStatus::killed;
    record.reason = "killed (signal 9): by the system for memory, or by somebody";
  } else if (signal != 0) {
    record.status = RunStatus::fail;
    record.reason = fmt::format("crashed: {} (signal {})", strsignal(signal), signal);
  } else if (exit_code == static_cast<int>(ExitCode::out_of_memory)) {
    record.status = RunStatus::oom;
    record.reason = "out of memory";
  } else if (exit_code == static_cast<int>(ExitCode::diverged)) {
    record.status = RunStatus::diverged;
    record.reason = "diverged";
  } else if (exit_code == static_cast<int>(ExitCode::peer_lost) || exit_code == 128 + SIGKILL) {
    record.status = RunStatus::killed;
    record.reason = fmt::format("a rank died or was killed (exit code {})", exit_code);
  } else if (exit_code == static_cast<int>(ExitCode::resumable)) {
    record.status = RunStatus::stopped;
    record.reason = "stopped by a signal before it had a record";
  } else {
    record.status = RunStatus::fail;
    record.reason = fmt::format("ended with exit code {} and no record", exit_code);
  }
}

RunRecord finish(const PlannedPoint& point, const SweepOptions& options, const ProcessResult& ended,
                 const std::string& path, const std::string& log) {
  Fs& fs = posix_fs();
  RunRecord record;
  if (fs.info(path) && !ended.timed_out) {
    record = read_record(fs, path);
    if (record.status == RunStatus::ok) return record;
  } else {
    record = record_for(point, options);
    record.wall_seconds = ended.seconds;
    describe_end(record, ended, time_limit(point, options));
    if (ended.exit_code != 0 && !ended.timed_out) {
      record.reason += last_error(file_tail(log, kTailBytes));
    }
  }
  record.log_tail = file_tail(log, kTailBytes);
  write_record(fs, path, record);
  return record;
}

}  // namespace

RunRecord record_for(const PlannedPoint& point, const SweepOptions& options) {
  RunRecord record;
  record.label = point.point.label;
  record.config = point.config;
  // As of a run that ends.
  record.config.train.steps = scheduled_steps(options.steps, kWarmupSteps);
  // Flags that contradict each other leave a configuration that nobody asked for.
  const bool uneven = !point.point.reason.empty();
  if (!uneven) {
    record.command = {"stretto", "bench"};
    record.command.insert(record.command.end(), point.point.words.begin(), point.point.words.end());
  } else if (point.point.ranks != point.config.world_size()) {
    record.asked_ranks = std::min<int64_t>(point.point.ranks, 1 << 20);
  }
  record.launcher = point.config.world_size() > 1 ? options.launcher : "threads";
  record.memory = point.memory;
  record.predicted = point.predicted;
  record.build = build_info();
  record.started = utc_now();
  // Jobs of a cluster measure their own machine. The machine from which they are submitted may not
  // have been measured.
  record.machine = options.machine.empty() ? sweep_machine(options.directory) : options.machine;
  describe_device(record);
  return record;
}

double time_limit(const PlannedPoint& point, const SweepOptions& options) {
  return point.point.timeout > 0 ? point.point.timeout : options.timeout;
}

std::string record_path(const std::string& directory, const PlannedPoint& point) {
  return join_path(point_directory(directory, point), "record.json");
}

std::string sweep_machine(const std::string& directory) {
  const std::string path = machine_path(directory);
  return posix_fs().info(path) ? read_machine_file(posix_fs(), path) : "";
}

std::string prepare_sweep(const std::string& directory) {
  make_dirs(posix_fs(), join_path(directory, "points"));
  if (!posix_fs().info(machine_path(directory))) {
    const MachineInfo machine = survey_machine(true, directory);
    if (!machine.gpu.gpus.empty()) release_gpus();  // also where all points are for CPUs
    warn_if_disturbed(machine, fmt::format("remove {} to measure again", machine_path(directory)));
    write_file_atomic(posix_fs(), machine_path(directory), to_json(machine).dump(2) + "\n");
  }
  return sweep_machine(directory);
}

std::optional<RunRecord> finished_record(const PlannedPoint& point, const SweepOptions& options) {
  std::optional<RunRecord> record = stored_record(point, options);
  if (!record && posix_fs().info(record_path(options.directory, point))) {
    spdlog::warn("{}: its record is damaged: runs again; {} keeps it", printable(point.point.label),
                 set_aside(point, options, "damaged.json"));
  }
  if (record && options.retry && record->status != RunStatus::ok) {
    posix_fs().remove(record_path(options.directory, point));
    return std::nullopt;
  }
  if (!record || has_enough(*record, options)) return record;
  if (record->status == RunStatus::stopped) {
    spdlog::warn("{}: was stopped before its end: runs again; {} keeps the old record",
                 printable(point.point.label), set_aside(point, options, "before.json"));
    return std::nullopt;
  }
  spdlog::warn(
      "{}: measured before with {}, but {} and {} s are asked for: runs again; "
      "{} keeps the old record",
      printable(point.point.label), counted(std::ssize(record->timed_seconds()), "timed step"),
      counted(options.steps, "step"), options.seconds, set_aside(point, options, "before.json"));
  return std::nullopt;
}

bool would_run(const PlannedPoint& point, const SweepOptions& options) {
  if (!point.reason.empty()) return false;
  const std::optional<RunRecord> record = stored_record(point, options);
  return !record || !has_enough(*record, options) ||
         (options.retry && record->status != RunStatus::ok);
}

void clear_for_rerun(const PlannedPoint& point, const SweepOptions& options) {
  if (!posix_fs().info(record_path(options.directory, point))) return;
  const PointLock lock(join_path(point_directory(options.directory, point), "lock"));
  if (lock.held()) finished_record(point, options);
}

PointResult run_point(const PlannedPoint& point, const SweepOptions& options) {
  Fs& fs = posix_fs();
  const std::string directory = point_directory(options.directory, point);
  const std::string path = record_path(options.directory, point);
  make_dirs(fs, directory);
  const PointLock lock(join_path(directory, "lock"));
  if (!lock.held()) return {PointOutcome::running_elsewhere, {}};
  if (std::optional<RunRecord> record = finished_record(point, options)) {
    return {PointOutcome::already_finished, std::move(*record)};
  }
  if (!point.reason.empty()) {
    RunRecord record = record_for(point, options);
    record.status = point.status;
    record.reason = point.reason;
    record.exit_code = static_cast<int>(point.status == RunStatus::oom ? ExitCode::out_of_memory
                                                                       : ExitCode::bad_config);
    write_record(fs, path, record);
    return {PointOutcome::ran, std::move(record)};
  }
  const std::string log = join_path(directory, "log.txt");
  ProcessOptions process;
  process.timeout = time_limit(point, options);
  process.log = log;
  process.stop = options.stop;
  process.grace = options.launch.empty() ? 0 : kLauncherGrace;
  if (options.waiting) process.waiting = [&](double s) { options.waiting(point, s); };
  const ProcessResult ended = run_process(child_argv(point, options, path), process);
  if (ended.stopped) {
    // If the sweep was asked to stop, the run may have left a record that says so. That is no
    // result.
    if (fs.info(path) && read_record(fs, path).status != RunStatus::ok) fs.remove(path);
    if (!fs.info(path)) return {PointOutcome::stopped, {}};
  }
  return {PointOutcome::ran, finish(point, options, ended, path, log)};
}

}  // namespace stretto
