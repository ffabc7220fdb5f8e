#include "bench/observe.h"

#include <map>

#include "bench/figures.h"
#include "plan/local.h"

namespace stretto {
namespace {

bool timed(const RunRecord& record) {
  return record.source == "measured" && record.status == RunStatus::ok &&
         !record.timed_seconds().empty();
}

std::string place_of(const RunRecord& r) {
  return r.device + "\n" + r.build.version + r.build.commit + r.build.compiler + r.build.flags;
}

// Index of the run that the others of its build and machine are predicted from.
std::map<std::string, size_t> known_runs(const std::vector<RunRecord>& records) {
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < records.size(); ++i) {
    if (!timed(records[i])) continue;
    const auto [it, first] = known.emplace(place_of(records[i]), i);
    if (first) continue;
    const RunRecord& best = records[it->second];
    const auto key = [](const RunRecord& r) { return std::pair(r.devices(), r.started); };
    if (key(records[i]) < key(best)) it->second = i;
  }
  return known;
}

}  // namespace

std::vector<plan::Observation> observations_of(const std::vector<FoundRecord>& records) {
  std::vector<plan::Observation> out;
  for (const FoundRecord& found : records) {
    const RunRecord& r = found.record;
    if (!timed(r)) continue;
    std::optional<plan::Cluster> cluster = plan::cluster_of_run(r.config, r.machine);
    if (!cluster) continue;
    plan::Observation o;
    o.id = r.label.empty() ? found.path : r.label;
    o.same_as = o.id;
    o.work = plan::workload_of(r.config);
    o.layout = plan::layout_of(r.config);
    o.seconds = derive(r).step.median;
    o.cluster = std::make_shared<const plan::Cluster>(std::move(*cluster));
    out.push_back(std::move(o));
  }
  return out;
}

std::vector<RecordForecast> forecasts_of(const std::vector<RunRecord>& records) {
  const std::map<std::string, size_t> known = known_runs(records);
  std::vector<RecordForecast> out;
  for (size_t i = 0; i < records.size(); ++i) {
    const RunRecord& r = records[i];
    RecordForecast f;
    if (r.source == "measured" && r.status != RunStatus::rejected) {
      std::vector<plan::KnownRun> runs;
      const auto it = known.find(place_of(r));
      if (it != known.end()) {
        const RunRecord& other = records[it->second];
        runs.push_back({other.config, derive(other).step.median});
        f.known = it->second == i;
      }
      f.forecast = plan::forecast_run(r.config, r.machine, runs);
    }
    out.push_back(std::move(f));
  }
  return out;
}

}  // namespace stretto
