#include "bench/record.h"

#include <algorithm>
#include <ctime>
#include <sstream>

#include "base/log.h"
#include "bench/safe_text.h"

namespace stretto {
namespace {

constexpr int64_t kMaxRecordBytes = 64 << 20;

void add_file(Fs& fs, const std::string& path, std::vector<FoundRecord>& found) {
  // Other files that a run leaves beside its records. (A record may have such a name, too.)
  const std::string name = path.substr(path.rfind('/') + 1);
  const bool ours = name == "tokenizer.json" || name == "trace.json";
  try {
    found.push_back({path, read_record(fs, path)});
  } catch (const Error& error) {
    if (!ours) spdlog::warn("{}", error.what());
  }
}

// The records of a run or a sweep, whose directory holds these names.
void add_directory(Fs& fs, const std::string& path, const std::vector<std::string>& names,
                   std::vector<FoundRecord>& found) {
  for (const std::string& name : names) {
    if (name.ends_with(".json") && name != "machine.json")
      add_file(fs, join_path(path, name), found);
  }
  const std::string points = join_path(path, "points");
  if (!fs.info(points)) return;
  for (const std::string& name : fs.list(points)) {
    const std::string file = join_path(join_path(points, name), "record.json");
    if (fs.info(file)) add_file(fs, file, found);
  }
}

bool is_of_a_run(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name == "points" || (name.starts_with("run-") && name.ends_with(".json"));
  });
}

// The records of the runs and sweeps below a directory that is none itself, such as runs/.
constexpr int kDeepest = 3;
void add_below(Fs& fs, const std::string& path, std::vector<std::string> names, int deepest,
               std::vector<FoundRecord>& found) {
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string below = join_path(path, name);
    const auto info = fs.info(below);
    if (!info || info->kind != FileKind::directory) continue;
    std::vector<std::string> files;
    try {
      files = fs.list(below);
    } catch (const Error&) {  // no permission to read it
      continue;
    }
    if (is_of_a_run(files)) {
      add_directory(fs, below, files, found);
    } else if (deepest > 1) {
      add_below(fs, below, std::move(files), deepest - 1, found);
    }
  }
}

}  // namespace

const char* name_of(RunStatus status) {
  constexpr const char* kNames[] = {"ok",       "OOM",    "fail",    "timeout",
                                    "diverged", "killed", "stopped", "rejected"};
  return kNames[static_cast<int>(status)];
}

RunStatus status_of(ExitCode code) {
  switch (code) {
    case ExitCode::out_of_memory:
      return RunStatus::oom;
    case ExitCode::diverged:
      return RunStatus::diverged;
    case ExitCode::bad_config:
      return RunStatus::rejected;
    case ExitCode::resumable:
      return RunStatus::stopped;
    case ExitCode::peer_lost:
      return RunStatus::killed;
    default:
      return RunStatus::fail;
  }
}

std::string reason_of(const Error& error) {
  std::string text = error.what(), line, reason;
  if (!error.hint().empty()) text += "\n  fix: " + error.hint();
  for (std::istringstream lines(text); std::getline(lines, line);) {
    const bool goes_on = line.starts_with("    ");  // an indented line continues the sentence above
    reason += (reason.empty() ? "" : goes_on ? " " : "; ") + line;
  }
  return one_line(reason);
}

void set_failure(RunRecord& record, const Error& error) {
  record.status = status_of(error.code());
  record.exit_code = static_cast<int>(error.code());
  record.reason = reason_of(error);
}

const char* name_of(Part part) {
  constexpr const char* kNames[] = {"matmul",  "attention", "other",   "optimizer", "copy",
                                    "comm_dp", "comm_tp",   "comm_pp", "data",      "host"};
  return kNames[static_cast<int>(part)];
}

// Means are weighted by samples; a step shorter than the sampling interval may have none.
void RunGpu::add(const GpuWindow& w) {
  if (w.samples == 0) return;
  const auto before = static_cast<double>(samples), more = static_cast<double>(w.samples);
  const auto mean = [&](double old, double value) {
    return (old * before + value * more) / (before + more);
  };
  sm_clock_mhz = mean(sm_clock_mhz, w.sm_clock_mhz_mean);
  memory_clock_mhz = mean(memory_clock_mhz, w.memory_clock_mhz_mean);
  power_watts = mean(power_watts, w.power_watts_mean);
  sm_clock_mhz_min =
      samples == 0 ? w.sm_clock_mhz_min : std::min(sm_clock_mhz_min, w.sm_clock_mhz_min);
  power_watts_max = std::max(power_watts_max, w.power_watts_max);
  temperature_c_max = std::max(temperature_c_max, w.temperature_c_max);
  reasons_ |= w.throttle_reasons;
  held_back_by = throttle_text(reasons_);
  samples += w.samples;
}

std::vector<double> RunRecord::timed_seconds() const {
  std::vector<double> seconds;
  for (size_t i = static_cast<size_t>(warmup); i < steps.size(); ++i) {
    seconds.push_back(steps[i].seconds);
  }
  return seconds;
}

bool RunRecord::counts() const {
  const int64_t timed = std::ssize(timed_seconds());
  return !failed() && timed >= (status == RunStatus::ok ? 1 : kTimedSteps);
}

void write_record(Fs& fs, const std::string& path, const RunRecord& record) {
  make_dirs(fs, parent_dir(path));
  write_file_atomic(fs, path, record_text(record));
}

RunRecord read_record(Fs& fs, const std::string& path) {
  return parse_record(read_file(fs, path, kMaxRecordBytes), path);
}

std::vector<FoundRecord> find_records(Fs& fs, const std::string& path) {
  const auto info = fs.info(path);
  if (!info) {
    throw Error(ExitCode::no_input, fmt::format("no records: {} does not exist", printable(path)),
                "give a record, or the directory of a sweep");
  }
  std::vector<FoundRecord> found;
  if (info->kind == FileKind::regular) {
    found.push_back({path, read_record(fs, path)});
    return found;
  }
  const std::vector<std::string> names = fs.list(path);
  add_directory(fs, path, names, found);
  if (found.empty()) add_below(fs, path, names, kDeepest, found);
  return found;
}

std::string results_directory(Fs& fs, const std::string& path) {
  const auto info = fs.info(path);
  return info && info->kind == FileKind::regular ? parent_dir(path) : path;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace stretto
