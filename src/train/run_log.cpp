#include "train/run_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "train/log_line.h"

namespace stretto {
namespace {

// Empty: no event file. A run that has no step left to take would leave one without steps.
std::string event_directory(const Config& config, int64_t step) {
  return config.log.tensorboard && step < config.train.steps ? config.output : "";
}

}  // namespace

RunLog::RunLog(Fs& fs, const Config& config, bool writes, int64_t step)
    : config_(config),
      writes_(writes && !config.output.empty()),
      metrics_(fs, writes_ ? config.output : "", step),
      events_(fs, writes_ ? event_directory(config, step) : "", step) {}

void RunLog::step(const StepRecord& record) {
  if (!writes_) return;
  metrics_.write(json_line(config_, record));
  if (config_.log.tensorboard) events_.write(record.step, step_scalars(config_, record));
}

void RunLog::evaluation(int64_t step, double loss) {
  metrics_.write(fmt::format("{{\"step\":{},\"eval_loss\":{}}}", step, json_number(loss)));
  const Scalar scalars[] = {{"lm loss validation", loss},
                            {"lm loss validation ppl", std::exp(loss)}};
  events_.write(step, scalars);
}

void RunLog::save(const SaveReport& save) {
  metrics_.write(
      fmt::format("{{\"step\":{},\"checkpoint\":{{\"bytes\":{},\"stall\":{:.4g},\"seconds\":{:.4g},"
                  "\"digest\":{:.4g},\"write\":{:.4g},\"sync\":{:.4g}}}}}",
                  save.step, save.bytes, save.stall, save.seconds, save.times.digest,
                  save.times.write, save.times.sync));
}

void RunLog::compute_seconds(int64_t step, std::span<const double> by_rank) {
  metrics_.write(fmt::format("{{\"step\":{},\"compute_seconds_by_rank\":[{:.6g}]}}", step,
                             fmt::join(by_rank, ",")));
}

void RunLog::sync() {
  metrics_.sync();
  events_.sync();
}

}  // namespace stretto
