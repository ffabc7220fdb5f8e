#include "bench/observe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/log.h"
#include "base/units.h"
#include "bench/figures.h"
#include "plan/local.h"
#include "plan/statistics.h"
#include "train/rank_plan.h"

namespace stretto {
namespace {

bool timed(const RunRecord& record) { return record.source == "measured" && record.counts(); }

// The precision is part of it: one that the machine emulates tells nothing about others.
std::string kind_of(const RunRecord& r) {
  return r.device + "\n" + r.build.program() + "\n" + name_of(r.config.precision);
}

// Measured bytes per rank; 0 or less: not measured.
double used_memory(const RunRecord& r) {
  return static_cast<double>(r.memory.measured - r.memory.before) /
         static_cast<double>(std::max<int64_t>(1, r.memory.ranks_here));
}

// Bytes per rank that the process was expected to take; 0: unknown (GPUs).
double expected_memory(const RunRecord& r) {
  if (r.config.device != Device::cpu || r.memory.ranks_here < 1) return 0;
  return process_bytes(r.config, r.memory.ranks_here) / static_cast<double>(r.memory.ranks_here);
}

// For each build, machine and precision the index of the run from which the others are predicted:
// of the runs on the fewest devices one with steady times and without recomputation, and of those
// the one with the longest step, in which overheads matter least.
std::map<std::string, size_t> known_runs(const std::vector<RunRecord>& records) {
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < records.size(); ++i) {
    const RunRecord& r = records[i];
    if (!timed(r) || !plan::cluster_of_run(r.config, r.machine)) continue;
    const auto [it, first] = known.emplace(kind_of(r), i);
    if (first) continue;
    const RunRecord& best = records[it->second];
    const auto key = [](const RunRecord& x) {
      const Summary step = derive(x).step;
      const bool repeats = x.config.activation_checkpointing != Checkpointing::none;
      return std::tuple(x.devices(), step.disturbed() || x.disturbed(), repeats, -step.median,
                        x.started);
    };
    if (key(r) < key(best)) it->second = i;
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
    // Only the first rank's GPU is measured, and another rank may need more.
    if (r.config.device == Device::cpu || r.devices() == 1) {
      o.memory = std::max(0.0, used_memory(r));
      o.expected_memory = expected_memory(r);
    }
    o.cluster = std::make_shared<const plan::Cluster>(std::move(*cluster));
    out.push_back(std::move(o));
  }
  return out;
}

double process_bytes(const Config& config, int64_t ranks) {
  // Fitted to the runs of `make bench` on a two-core x86 server: what stacks, step records and the
  // libraries' own memory add per rank. Pages of files are not included.
  constexpr double kRank = 0.7e6;
  constexpr double kHugePage = 2097152;
  double all = 0;
  for (const RankShape& shape : stage_shapes(config)) {
    const auto bytes = static_cast<double>(memory_totals(memory_plan(shape)).total);
    const bool huge = bytes >= 2 * kHugePage;
    all += (huge ? std::ceil(bytes / kHugePage) * kHugePage : bytes) /
           static_cast<double>(config.parallel.pp);
  }
  return static_cast<double>(ranks) * (all + kRank);
}

std::vector<RecordForecast> forecasts_of(const std::vector<RunRecord>& records) {
  const std::map<std::string, size_t> known = known_runs(records);
  std::vector<RecordForecast> out;
  for (size_t i = 0; i < records.size(); ++i) {
    const RunRecord& r = records[i];
    RecordForecast f;
    if (r.source == "measured" && r.status != RunStatus::rejected) {
      std::vector<plan::KnownRun> runs;
      const auto it = known.find(kind_of(r));
      if (it != known.end()) {
        const RunRecord& other = records[it->second];
        runs.push_back({other.config, derive(other).step.median});
        f.known = it->second == i;
      }
      f.forecast = plan::forecast_run(r.config, r.machine, runs);
      if (f.forecast) f.memory = expected_memory(r);
      f.known = f.known && f.forecast;
    }
    out.push_back(std::move(f));
  }
  return out;
}

double foreseen_seconds(const RunRecord& record, const RecordForecast& forecast) {
  return forecast.forecast ? forecast.forecast->seconds : record.predicted.seconds;
}

double foreseen_memory(const RunRecord& record, const RecordForecast& forecast) {
  const auto plan = static_cast<double>(record.memory.predicted_rank);
  return forecast.memory > 0 ? forecast.memory : plan;
}

ForecastReport compare_forecasts(const std::vector<RunRecord>& records) {
  const std::vector<RecordForecast> forecasts = forecasts_of(records);
  ForecastReport out{TextTable({"run", "layout", ">measured", ">predicted", ">error",
                                ">memory/rank", ">predicted", ">error"})};
  std::vector<double> errors, memory;
  for (size_t i = 0; i < records.size(); ++i) {
    const RunRecord& r = records[i];
    const RecordForecast& f = forecasts[i];
    const double seconds = derive(r).step.median;
    if (!f.forecast || !timed(r) || seconds <= 0) {
      ++out.left_out;
      continue;
    }
    const double error = f.forecast->seconds / seconds - 1;
    std::vector<std::string> cells = {printable(r.label), describe(plan::layout_of(r.config)),
                                      format_seconds(seconds), format_seconds(f.forecast->seconds),
                                      f.known ? "known" : format_change(error, 1)};
    if (!f.known) errors.push_back(std::abs(error));
    out.disturbed += r.disturbed() ? 1 : 0;
    const double used = used_memory(r);
    if (f.memory > 0 && used > 0) {
      const double wrong = f.memory / used - 1;
      memory.push_back(std::abs(wrong));
      cells.insert(cells.end(),
                   {format_bytes(used), format_bytes(f.memory), format_change(wrong, 1)});
    }
    cells.resize(8);  // memory is not always known
    out.table.add(std::move(cells));
  }
  out.rows = errors.size();
  out.memory_rows = memory.size();
  out.median_error = plan::median(errors);
  out.memory_error = plan::median(memory);
  if (!errors.empty()) out.worst_error = *std::max_element(errors.begin(), errors.end());
  if (!memory.empty()) out.worst_memory_error = *std::max_element(memory.begin(), memory.end());
  return out;
}

}  // namespace stretto
