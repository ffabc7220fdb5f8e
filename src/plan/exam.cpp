#include "plan/exam.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "account/flops.h"
#include "base/clock.h"
#include "base/error.h"
#include "config/suggest.h"
#include "plan/memory.h"
#include "plan/search.h"
#include "plan/statistics.h"

namespace stretto::plan {
namespace {

// A group is held out only if at least this share of the rows remains for the fit.
constexpr double kRemaining = 0.4;

using Rows = std::vector<Observation>;
using FitFunction = FitResult (*)(const Cluster&, const Stack&, const Rows&);
using PredictFunction = double (*)(const Cluster&, const Stack&, const Constants&,
                                   const Observation&);

struct Examiner {
  const Cluster& cluster;
  const Stack& stack;
  FitFunction fit;
  PredictFunction predict;
  double (*measured)(const Observation&);
};

double seconds_of(const Observation& o) { return o.seconds; }
double memory_of(const Observation& o) { return o.out_of_memory ? 0 : o.memory; }

// Holds out each value of `key` in turn. `held` receives the signed error of every row.
HeldOut hold_out(const Examiner& e, const Rows& rows, const std::string& key,
                 std::map<std::string, double>* held) {
  HeldOut out;
  out.key = key;
  std::set<std::string> values;
  size_t total = 0;
  for (const Observation& o : rows) {
    if (e.measured(o) <= 0 || o.repeat) continue;
    values.insert(o.keys.at(key));
    ++total;
  }
  std::vector<double> all, clean, unfair;
  for (const std::string& value : values) {
    Rows train, test;
    for (const Observation& o : rows) {
      if (e.measured(o) <= 0 || o.repeat) continue;
      (o.keys.at(key) == value ? test : train).push_back(o);
    }
    if (train.empty()) continue;
    const bool fair = static_cast<double>(train.size()) >= kRemaining * static_cast<double>(total);
    if (!fair) out.unfair.push_back(value);
    const FitResult fit = e.fit(e.cluster, e.stack, train);
    Stack fitted = e.stack;
    fitted.fitted = true;
    fitted.residual = fit.spread;
    for (const Observation& o : test) {
      const double predicted = e.predict(e.cluster, e.stack, fit.constants, o);
      const double error = predicted / e.measured(o) - 1;
      if (held) (*held)[o.id] = error;
      if (!fair) {
        unfair.push_back(std::abs(error));
        continue;
      }
      all.push_back(std::abs(error));
      const double half = interval_of(fitted, o.layout.devices());
      if (std::abs(e.measured(o) / predicted - 1) <= half) ++out.covered;
      if (o.anomaly.empty()) clean.push_back(std::abs(error));
    }
  }
  out.all = errors_of(all);
  out.clean = errors_of(clean);
  out.unfair_errors = errors_of(unfair);
  out.errors = std::move(all);
  out.clean_errors = std::move(clean);
  return out;
}

// Work per second, which compares rows of different batches and model sizes.
double speed(const Observation& o, double seconds) {
  const FlopsPerToken f =
      flops_per_token(Convention::megatron, o.work.model, o.work.seq_len, Checkpointing::none);
  return f.model_total() * static_cast<double>(o.work.global_batch * o.work.seq_len) / seconds;
}

RankGroup rank_group(const std::string& name, const Examiner& e, const Rows& members,
                     const Constants& constants) {
  std::vector<double> measured, predicted;
  for (const Observation& o : members) {
    measured.push_back(speed(o, o.seconds));
    predicted.push_back(speed(o, e.predict(e.cluster, e.stack, constants, o)));
  }
  RankGroup g{name, members.size(), spearman(measured, predicted), 1, 0};
  const size_t chosen =
      static_cast<size_t>(std::max_element(predicted.begin(), predicted.end()) - predicted.begin());
  for (double m : measured) g.place += m > measured[chosen] ? 1 : 0;
  g.regret = 1 - measured[chosen] / *std::max_element(measured.begin(), measured.end());
  return g;
}

// Every comparison group of three or more rows, predicted by a fit without these rows and their
// repeats.
std::vector<RankGroup> rank_groups(const Examiner& e, const Rows& rows) {
  std::vector<std::string> names;
  for (const Observation& o : rows) {
    if (std::find(names.begin(), names.end(), o.comparison) == names.end()) {
      names.push_back(o.comparison);
    }
  }
  std::vector<RankGroup> out;
  for (const std::string& name : names) {
    Rows members, train;
    std::set<std::string> ids;
    for (const Observation& o : rows) {
      if (o.comparison != name || o.seconds <= 0) continue;
      members.push_back(o);
      ids.insert(o.same_as);
    }
    if (members.size() < 3) continue;
    for (const Observation& o : rows) {
      if (o.seconds > 0 && !o.repeat && ids.count(o.id) == 0) train.push_back(o);
    }
    if (train.size() < e.stack.free.size()) continue;
    out.push_back(rank_group(name, e, members, e.fit(e.cluster, e.stack, train).constants));
  }
  return out;
}

void count_memory_calls(const Cluster& cluster, const Rows& rows, ExamTable& table) {
  for (const Observation& o : rows) {
    if (o.repeat) continue;
    const Setting s = setting_of(cluster, table.fitted, table.fitted.constants, o);
    const plan::Fit fit = estimate_memory(s.cluster, s.stack, o.work, o.layout).fit;
    const bool called = fit == plan::Fit::does_not_fit;
    if (o.out_of_memory) {
      ++table.oom_rows;
      table.oom_called += called ? 1 : 0;
      table.oom_tight += fit == plan::Fit::tight ? 1 : 0;
      if (!called) table.oom_missed.push_back(fmt::format("{} ({})", o.id, o.anomaly));
    } else if (o.seconds > 0) {
      ++table.ran;
      table.ran_called_oom += called ? 1 : 0;
    }
  }
}

ExamTable examine(const ExamSpec& spec, const std::vector<ReferenceRow>& reference) {
  ExamTable t;
  t.spec = spec;
  const Cluster cluster = find_cluster(spec.cluster);
  const Stack stack = find_stack(spec.stack, cluster);
  const Rows rows = published_rows(reference, spec.file, spec.part);
  if (rows.empty()) {
    throw Error(ExitCode::bad_data,
                fmt::format("{}.csv holds no row of {} to examine", spec.file, spec.part),
                "examine whole tables, or leave --dir out for those of this program");
  }
  const Examiner seconds{cluster, stack, fit_seconds, predicted_seconds, seconds_of};
  const Examiner memory{cluster, stack, fit_memory, predicted_memory, memory_of};

  t.fitted = stack;
  t.device = cluster.device;
  t.fit = fit_seconds(cluster, stack, rows);
  t.fitted.constants = t.fit.constants;
  size_t memory_rows = 0;
  for (const Observation& o : rows) memory_rows += memory_of(o) > 0 && !o.repeat ? 1 : 0;
  if (memory_rows > 0) {
    const FitResult m = fit_memory(cluster, stack, rows);
    for (Constant id : memory_constants()) t.fitted.constants.set(id, m.constants[id]);
  }
  t.fitted.residual = t.fit.spread;

  std::vector<std::map<std::string, double>> held(spec.keys.size());
  for (size_t k = 0; k < spec.keys.size(); ++k) {
    t.seconds.push_back(hold_out(seconds, rows, spec.keys[k], &held[k]));
    if (memory_rows >= 15) {
      t.memory.push_back(hold_out(memory, rows, spec.keys[k], nullptr));
    }
  }
  t.groups = rank_groups(seconds, rows);
  count_memory_calls(cluster, rows, t);

  std::vector<double> in_sample;
  for (const Observation& o : rows) {
    if (o.repeat || o.seconds <= 0) continue;
    ++t.rows;
    t.odd += o.anomaly.empty() ? 0 : 1;
    const double fitted = predicted_seconds(cluster, stack, t.fit.constants, o);
    in_sample.push_back(std::abs(fitted / o.seconds - 1));
    RowResult r{o.id, describe(o.layout), o.seconds, fitted, 0, 0, {}, o.anomaly};
    if (memory_of(o) > 0 && memory_rows > 0) {
      r.memory_measured = o.memory;
      r.memory_fitted = predicted_memory(cluster, stack, t.fitted.constants, o);
    }
    for (const auto& map : held) {
      const auto it = map.find(o.id);
      r.held.push_back(it == map.end() ? 0 : it->second);
    }
    t.results.push_back(r);
  }
  t.in_sample = errors_of(in_sample);
  t.floor = twin_floor(rows, spec.target_p90 / 100);
  return t;
}

}  // namespace

const std::vector<ExamSpec>& exam_specs() {
  // clang-format off
  static const std::vector<ExamSpec> kSpecs = {
      {"BLOOM, A100-80", "bloom", "a100_80gb", "jean-zay-a100", "megatron-deepspeed-2022",
       {"hidden", "tp", "pp"}, 2.5, 6, 3, 6},
      {"MPT, H100", "mpt", "h100_80gb", "h100", "composer-fsdp", {"model", "gpus"}, 1.8, 4},
      {"MPT, A100-80", "mpt", "a100_80gb", "a100-80", "composer-fsdp", {"model", "gpus"}, 2.5, 8},
      {"MPT, A100-40", "mpt", "a100_40gb", "a100-40", "composer-fsdp", {"model", "gpus"}, 2.5, 8},
      {"MosaicGPT, A100-80", "mosaicgpt", "a100_80gb", "a100-80", "composer-fsdp-2022",
       {"model"}, 1.2, 3},
      {"MosaicGPT 125m, A100-40", "mosaicgpt", "a100_40gb", "a100-40", "composer-fsdp-2022",
       {"gpus"}, 1.2, 3},
      {"124M, Fugaku", "fugaku", "124M", "fugaku-a64fx", "megatron-fugaku", {"nodes"}, 5, 15},
      {"30B, Fugaku", "fugaku", "30B", "fugaku-a64fx", "megatron-fugaku", {"nodes"}, 5, 15},
  };
  // clang-format on
  return kSpecs;
}

Errors errors_of(const std::vector<double>& fractions) {
  return {fractions.size(), 100 * median(fractions), 100 * quantile(fractions, 0.9)};
}

double ExamTable::decisions_within(double regret) const {
  if (groups.empty()) return 1;
  size_t good = 0;
  for (const RankGroup& g : groups) good += g.regret <= regret ? 1 : 0;
  return static_cast<double>(good) / static_cast<double>(groups.size());
}

Exam run_exam(const std::vector<ReferenceRow>& rows, const std::string& only) {
  const double start = clock_seconds();
  Exam exam;
  std::vector<std::string> names;
  for (const ExamSpec& spec : exam_specs()) {
    names.push_back("'" + spec.name + "'");
    if (spec.name.find(only) != std::string::npos) exam.tables.push_back(examine(spec, rows));
  }
  if (exam.tables.empty()) {
    throw Error(ExitCode::usage, fmt::format("no table of the exam is called '{}'", only),
                "use a part of " + join_or(names));
  }
  exam.wall_seconds = clock_seconds() - start;
  return exam;
}

}  // namespace stretto::plan
