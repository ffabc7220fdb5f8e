#include "train/run_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdio>

#include "train/log_line.h"

namespace stretto {
namespace {

// Empty: no event file. A run that has no step left to take would leave one without steps.
std::string event_directory(const Config& config, int64_t step) {
  return config.log.tensorboard && step < config.train.steps ? config.output : "";
}

}  // namespace

RunLog::RunLog(Fs& fs, const Config& config, bool writes, bool prints, int64_t step)
    : config_(config),
      writes_(writes && !config.output.empty()),
      prints_(prints && config.log.format == LogFormat::json),
      metrics_(fs, writes_ ? config.output : "", step),
      events_(fs, writes_ ? event_directory(config, step) : "", step) {}

void RunLog::step(const StepRecord& record) {
  if (!writes_) return;
  metrics_.write(json_line(config_, record));
  if (config_.log.tensorboard) events_.write(record.step, step_scalars(config_, record));
}

void RunLog::note(const std::string& line) {
  metrics_.write(line);
  if (!prints_) return;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void RunLog::evaluation(int64_t step, double loss) {
  note(fmt::format("{{\"step\":{},\"eval_loss\":{}}}", step, json_number(loss)));
  const Scalar scalars[] = {{"lm loss validation", loss},
                            {"lm loss validation ppl", std::exp(loss)}};
  events_.write(step, scalars);
}

void RunLog::save(const SaveReport& save) {
  note(
      fmt::format("{{\"step\":{},\"checkpoint\":{{\"bytes\":{},\"stall\":{:.4g},\"seconds\":{:.4g},"
                  "\"digest\":{:.4g},\"write\":{:.4g},\"sync\":{:.4g}}}}}",
                  save.step, save.bytes, save.stall, save.seconds, save.times.digest,
                  save.times.write, save.times.sync));
}

void RunLog::compute_seconds(int64_t step, std::span<const double> by_rank) {
  note(fmt::format("{{\"step\":{},\"compute_seconds_by_rank\":[{:.6g}]}}", step,
                   fmt::join(by_rank, ",")));
}

void RunLog::sync() {
  metrics_.sync();
  events_.sync();
}

}  // namespace stretto
