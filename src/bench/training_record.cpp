#include "bench/training_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "bench/launcher.h"
#include "bench/measure.h"
#include "bench/survey.h"

namespace stretto {
namespace {

constexpr size_t kSteps = 1000;  // only the last ones are kept; metrics.jsonl has all

// An unused name: two runs may begin within a second.
std::string new_path(Fs& fs, const std::string& directory, std::string started) {
  std::replace(started.begin(), started.end(), ':', '-');
  const std::string stem = join_path(directory, "run-" + started);
  std::string path = stem + ".json";
  for (int n = 2; fs.info(path); ++n) path = fmt::format("{}-{}.json", stem, n);
  return path;
}

// Empty if some steps count. Otherwise the batch was still growing when the run ended.
std::string why_untimed(const RunRecord& record) {
  if (!record.timed_seconds().empty()) return "";
  return fmt::format("nothing is timed: no step had the full batch of {}",
                     record.config.global_batch);
}

}  // namespace

TrainingRecord::TrainingRecord(const Config& config, std::vector<std::string> command, Fs& fs)
    : fs_(fs), start_(clock_seconds()) {
  record_.config = config;
  record_.command = std::move(command);
  record_.launcher = launcher_here();
  record_.started = utc_now();
}

void TrainingRecord::begin() {
  record_.build = build_info();
  record_.machine = to_json(survey_machine(false)).dump();
  describe_device(record_);
  predict_memory(record_);
  record_.status = RunStatus::killed;
  record_.reason = "its end is unknown: killed, or still running";
  path_ = new_path(fs_, record_.config.output, record_.started);
}

void TrainingRecord::add(const StepRecord& step) {
  if (record_.config.output.empty()) return;
  std::vector<StepSample>& steps = record_.steps;
  if (steps.size() == 2 * kSteps) {
    steps.erase(steps.begin(), steps.end() - kSteps);
    record_.warmup = std::max<int64_t>(0, record_.warmup - static_cast<int64_t>(kSteps));
  }
  steps.push_back({step.times.total, step.loss, step.skipped});
  // Figures are those of the full batch, so steps with a smaller one do not count.
  const bool ramps = record_.config.train.ramp_up.start > 0;
  if (ramps && step.global_batch < record_.config.global_batch) record_.warmup = std::ssize(steps);
  record_.first_step = step.step + 1 - std::ssize(steps);
  if (path_.empty()) guarded([&] { begin(); });
}

void TrainingRecord::end(ExitCode code) {
  guarded([&] {
    record_.status = code == ExitCode::ok ? RunStatus::ok : status_of(code);
    record_.exit_code = static_cast<int>(code);
    record_.reason = code == ExitCode::ok          ? why_untimed(record_)
                     : code == ExitCode::resumable ? "the same command continues"
                                                   : "no step had finite gradients";
  });
}

void TrainingRecord::end(const Error& error) {
  guarded([&] { set_failure(record_, error); });
}

void TrainingRecord::write() {
  if (path_.empty()) return;
  record_.wall_seconds = clock_seconds() - start_;
  write_record(fs_, path_, record_);
}

// Runs `work`, then writes. A record must not end a run: an error is reported, and from then on
// nothing is kept.
void TrainingRecord::guarded(const std::function<void()>& work) {
  try {
    work();
    write();
  } catch (const Error& error) {
    spdlog::warn("no record of this run: {}", error.what());
    record_.config.output.clear();
    path_.clear();
  }
}

}  // namespace stretto
