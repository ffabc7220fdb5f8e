#include "bench/training_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "bench/launcher.h"
#include "bench/measure.h"
#include "bench/survey.h"

namespace stretto {
namespace {

constexpr size_t kSteps = 1000;  // kept: the last ones; metrics.jsonl has them all

std::string file_name(std::string started) {
  std::replace(started.begin(), started.end(), ':', '-');
  return "run-" + started + ".json";
}

}  // namespace

TrainingRecord::TrainingRecord(const Config& config, std::vector<std::string> command, Fs& fs)
    : fs_(fs), start_(std::chrono::steady_clock::now()) {
  record_.config = config;
  record_.command = std::move(command);
  record_.launcher = launcher_here();
  record_.started = utc_now();
}

void TrainingRecord::begin() {
  path_ = record_.config.output + "/" + file_name(record_.started);
  record_.build = build_info();
  record_.machine = to_json(survey_machine(false)).dump();
  describe_device(record_);
  record_.status = RunStatus::killed;
  record_.reason = "nothing is known of its end: killed, or still running";
  write();
}

void TrainingRecord::add(const StepRecord& step) {
  if (record_.config.output.empty()) return;
  std::vector<StepSample>& steps = record_.steps;
  if (steps.size() == 2 * kSteps) steps.erase(steps.begin(), steps.end() - kSteps);
  steps.push_back({step.times.total, step.loss, step.skipped});
  record_.first_step = step.step + 1 - std::ssize(steps);
  if (path_.empty()) begin();
}

void TrainingRecord::end(ExitCode code) {
  record_.status = code == ExitCode::ok ? RunStatus::ok : status_of(code);
  record_.exit_code = static_cast<int>(code);
  record_.reason = code == ExitCode::ok          ? ""
                   : code == ExitCode::resumable ? "stopped in order; the same command continues"
                                                 : "no step had finite gradients";
  write();
}

void TrainingRecord::end(const Error& error) {
  set_failure(record_, error);
  write();
}

// A record is not worth a run.
void TrainingRecord::write() {
  if (path_.empty()) return;
  record_.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  try {
    write_record(fs_, path_, record_);
  } catch (const Error& error) {
    spdlog::warn("no record of this run: {}", error.what());
  }
}

}  // namespace stretto
