// From a sweep's points to what can run, with predictions.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/log.h"
#include "bench/figures.h"
#include "bench/measure.h"
#include "bench/predict.h"
#include "bench/sweep_spec.h"
#include "config/reader.h"
#include "config/rules.h"
#include "data/token_source.h"
#include "train/launch.h"

namespace stretto {
namespace {

// What tables call the ZeRO stage is what runs: with one replica it is none. A point that cannot
// run stays as it was written.
bool drop_idle_zero(SweepPoint& point, ResolvedConfig& resolved) {
  const Config& config = resolved.config;
  const bool idle = zero_in_effect(config) != config.parallel.zero;
  if (!idle || !point.reason.empty() || !is_valid(config)) return false;
  point.words.insert(point.words.end(), {"parallel.zero=0", "parallel.zero_group=0"});
  resolved = load_config(point.words, point.places);
  return true;
}

// Directory of a point: its label, shortened in the middle, the hash of its configuration and, for
// ranks that are not threads, their launcher.
std::string id_of(const PlannedPoint& p, const std::string& hash, const std::string& launcher) {
  const std::string& label = p.point.label;
  const bool cut = label.size() > 100;
  std::string id = cut ? label.substr(0, 50) + label.substr(label.size() - 50) : label;
  id += "-" + hash.substr(0, 8);
  if (launcher != "threads" && p.config.world_size() > 1) id += "-" + launcher;
  return id;
}

// What opening the files of points said; each is opened once.
class DataFiles {
 public:
  void require(const DataConfig& data) {
    for (const std::string& path : {data.path, data.eval_path}) {
      if (path.empty()) continue;
      const auto [known, fresh] = said_.try_emplace({path, data.format});
      if (fresh) {
        try {
          open_tokens(path, data.format);
        } catch (const Error& error) {
          known->second = error;
        }
      }
      if (known->second) throw *known->second;
    }
  }

 private:
  std::map<std::pair<std::string, TokenFormat>, std::optional<Error>> said_;
};

// Checks that the point can run on this machine, and predicts what it will take. Where srun starts
// the ranks, their data need not be here.
void predict(PlannedPoint& p, const ResolvedConfig& resolved, const std::string& machine,
             DataFiles* files) {
  if (!p.point.reason.empty()) throw Error(ExitCode::bad_config, p.point.reason);
  require_valid(resolved);
  if (files != nullptr) files->require(p.config.data);
  fit_memory(p.config);
  RunRecord record;
  record.config = p.config;
  record.machine = machine;
  describe_device(record);
  predict_memory(record);
  predict_time(record);
  p.memory = record.memory;
  p.predicted = record.predicted;
}

void reject(PlannedPoint& p, const ResolvedConfig& resolved, const Error& error) {
  const bool oom = error.code() == ExitCode::out_of_memory;
  p.status = oom ? RunStatus::oom : RunStatus::rejected;
  p.reason = reason_of(error);
  p.config = resolved.config;
  // A record needs definite and possible numbers; the reason says what was asked for.
  p.config.micro_batch = std::max<int64_t>(1, p.config.micro_batch);
  ParallelConfig& ranks = p.config.parallel;
  for (int64_t* n : {&ranks.dp, &ranks.tp, &ranks.pp}) *n = std::clamp<int64_t>(*n, 1, 1 << 20);
  if (!oom) return;
  RunRecord record;  // of a run with enough memory
  record.config = p.config;
  predict_memory(record);
  p.memory = record.memory;
}

}  // namespace

void require_readable(const std::vector<SweepPoint>& points) {
  for (const SweepPoint& point : points) load_config(point.words, point.places);
}

std::vector<PlannedPoint> plan_points(const std::vector<SweepPoint>& points,
                                      const std::string& machine, const std::string& launcher) {
  std::vector<PlannedPoint> planned;
  std::map<std::string, std::string> labels;  // by the work
  DataFiles files;
  for (const SweepPoint& point : points) {
    PlannedPoint p;
    p.point = point;
    ResolvedConfig resolved = load_config(point.words, point.places);
    const bool plain = drop_idle_zero(p.point, resolved);
    p.config = resolved.config;
    const std::string hash = config_hash(p.config);
    const auto [twin, first] = labels.emplace(hash + point.reason, point.label);
    if (!first) {
      if (point.label != twin->second) {
        spdlog::info("{}: left out, since it is the same as {}{}", point.label, twin->second,
                     plain ? ": with dp 1, ZeRO has nothing to shard" : "");
      }
      continue;
    }
    if (p.point.label.empty()) p.point.label = hash.substr(0, 8);
    p.id = id_of(p, hash, launcher);
    try {
      predict(p, resolved, machine, launcher == "srun" ? nullptr : &files);
    } catch (const Error& error) {
      reject(p, resolved, error);
    }
    planned.push_back(std::move(p));
  }
  return planned;
}

}  // namespace stretto
