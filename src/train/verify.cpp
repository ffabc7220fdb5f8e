#include "train/verify.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/fs.h"
#include "comm/threads.h"
#include "comm/watchdog.h"
#include "train/audit.h"
#include "train/rank_plan.h"
#include "train/resume.h"
#include "train/run.h"
#include "train/saver.h"
#include "train/signals.h"

namespace stretto {
namespace {

void stop_if_asked() {
  if (stop_signal() == 0) return;
  throw Error(ExitCode::resumable, "stopped before the end", "run the same command again");
}

// Runs body(world) on each rank; body calls stop_if_asked() between steps. After a stop signal the
// ranks end as in any failure; then only the stop is reported, not which rank was first to see it.
void on_ranks(const Config& config, const std::function<void(Comm&)>& body) {
  try {
    run_thread_ranks(static_cast<int>(config.world_size()), body);
  } catch (const std::exception&) {
    stop_if_asked();
    throw;
  }
  stop_if_asked();
}

// Trains the first half of the steps and saves into `output`. Returns rank 0's records.
std::vector<StepRecord> save_half(const Config& config) {
  std::vector<StepRecord> steps;
  on_ranks(config, [&](Comm& world) {
    const Watchdog watchdog(world, {.timeout = config.train.watchdog});
    Trainer trainer(config, world);
    trainer.initialise();
    while (trainer.state().step < config.train.steps / 2) {
      stop_if_asked();
      const StepRecord record = trainer.step();
      if (world.rank() == 0) steps.push_back(record);
    }
    CheckpointSaver saver(trainer, posix_fs(), -1);
    saver.save();
    saver.require_saved();
  });
  return steps;
}

// Trains the second half from what is saved in `output`, which it does not change.
std::vector<StepRecord> resumed_half(const Config& config) {
  std::vector<StepRecord> steps;
  on_ranks(config, [&](Comm& world) {
    const Watchdog watchdog(world, {.timeout = config.train.watchdog});
    Trainer trainer(config, world);
    STRETTO_CHECK(resume(trainer, posix_fs(), false) == config.train.steps / 2);
    while (trainer.state().step < config.train.steps) {
      stop_if_asked();
      const StepRecord record = trainer.step();
      if (world.rank() == 0) steps.push_back(record);
    }
    audit_replicas(trainer);
  });
  return steps;
}

// The checkpoint that one topology saved half-way. It is kept until another topology saves, or
// until the end.
class SavedHalf {
 public:
  SavedHalf() = default;
  ~SavedHalf() { clear(); }
  SavedHalf(const SavedHalf&) = delete;
  SavedHalf& operator=(const SavedHalf&) = delete;

  std::vector<StepRecord> resume_on(const VerifyCase& one) {
    if (name_ != one.saved_by.name) save(one.saved_by);
    Config config = one.config;
    config.output = directory_;
    std::vector<StepRecord> curve = steps_;
    for (const StepRecord& step : resumed_half(config)) curve.push_back(step);
    return curve;
  }

 private:
  void save(const VerifySaver& by) {
    clear();
    directory_ = make_temp_dir("stretto-verify-", "room for one checkpoint");
    Config config = by.config;
    config.output = directory_;
    steps_ = save_half(config);
    name_ = by.name;
  }
  void clear() {
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
    directory_.clear();
    name_.clear();
  }

  std::string name_, directory_;
  std::vector<StepRecord> steps_;
};

// Errors that do not show anything wrong with the training: no place to save, or a stop signal.
bool says_nothing_about_training(ExitCode code) {
  return code == ExitCode::cannot_create || code == ExitCode::io_error ||
         code == ExitCode::no_permission || code == ExitCode::resumable;
}

std::vector<StepRecord> curve_of(const Config& config) {
  require_fits(config, memory_budget(config, config.world_size()));
  std::vector<StepRecord> steps;
  on_ranks(config, [&](Comm& world) {
    RunOptions options;
    options.print = false;
    options.on_step = [&](const StepRecord& step) {
      stop_if_asked();
      if (world.rank() == 0) steps.push_back(step);
    };
    run_training(config, world, options);
  });
  return steps;
}

// If both runs skipped the step, both norms may be NaN.
bool same_norm(const StepRecord& a, const StepRecord& b) {
  const bool left_out = a.skipped && b.skipped;
  return a.grad_norm == b.grad_norm ||
         (left_out && std::isnan(a.grad_norm) && std::isnan(b.grad_norm));
}

double difference(double value, double reference) {
  if (value == reference) return 0;
  const double d = std::abs(value - reference) / std::abs(reference);
  return std::isfinite(d) ? d : INFINITY;
}

void compare(VerifyRow& row, const std::vector<StepRecord>& curve,
             const std::vector<StepRecord>& reference) {
  STRETTO_CHECK(curve.size() == reference.size());
  row.bit_equal = true;
  for (size_t i = 0; i < curve.size(); ++i) {
    row.loss_differences.push_back(difference(curve[i].loss, reference[i].loss));
    const bool same = same_norm(curve[i], reference[i]);
    row.norm_differences.push_back(same ? 0
                                        : difference(curve[i].grad_norm, reference[i].grad_norm));
    row.bit_equal &= same && curve[i].loss == reference[i].loss;
  }
}

double largest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

}  // namespace

double VerifyRow::max_loss_difference() const { return largest(loss_differences); }
double VerifyRow::max_norm_difference() const { return largest(norm_differences); }

bool VerifyRow::passed() const {
  if (!error.empty() || tolerance.exact()) return error.empty() && bit_equal;
  const auto first_within = [&](const Limits& limits) {
    return loss_differences.front() <= limits.loss && norm_differences.front() <= limits.grad_norm;
  };
  return max_loss_difference() <= tolerance.any_step.loss &&
         max_norm_difference() <= tolerance.any_step.grad_norm &&
         (!tolerance.first_step || first_within(*tolerance.first_step));
}

std::vector<VerifyRow> run_verify(const std::vector<VerifyCase>& cases,
                                  const std::function<void(const VerifyRow&)>& on_row) {
  std::map<std::string, std::vector<StepRecord>> curves;
  std::vector<VerifyRow> rows;
  SavedHalf saved;
  for (const VerifyCase& one : cases) {
    if (one.against.empty()) {
      curves[one.name] = curve_of(one.config);
      continue;
    }
    VerifyRow row;
    row.name = one.name;
    row.against = one.against;
    row.ranks = std::max(one.config.world_size(), one.saved_by.config.world_size());
    row.tolerance = one.tolerance;
    try {
      curves[one.name] = one.saved_by.name.empty() ? curve_of(one.config) : saved.resume_on(one);
      const auto reference = curves.find(one.against);
      if (reference == curves.end() || reference->second.empty()) {
        row.error = fmt::format("'{}' has no curve to compare with", one.against);
      } else {
        compare(row, curves[one.name], reference->second);
      }
    } catch (const Error& error) {
      if (says_nothing_about_training(error.code())) throw;
      row.error = error.what();
    }
    if (on_row) on_row(row);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace stretto
