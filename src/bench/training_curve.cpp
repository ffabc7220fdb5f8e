#include "bench/training_curve.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/strict_json.h"

namespace stretto {
namespace {

using nlohmann::json;

// The number at `key`; `missing` unless there is one.
double number_at(const json& object, const char* key, double missing) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : missing;
}

std::optional<std::array<double, kParts>> parts_of(const json& line) {
  const auto times = line.find("times");
  if (times == line.end() || !times->is_object()) return std::nullopt;
  std::array<double, kParts> parts{};
  for (int i = 0; i < kParts; ++i) {
    const double seconds = number_at(*times, name_of(static_cast<Part>(i)), -1);
    if (!(seconds >= 0)) return std::nullopt;
    parts[static_cast<size_t>(i)] = seconds;
  }
  return parts;
}

// Without the end of a line; a last line without one is not complete.
template <typename Take>
void for_each_line(File& file, const Take& take) {
  constexpr size_t kBlock = 1 << 20;
  std::string bytes;
  for (int64_t offset = 0;;) {
    const size_t had = bytes.size();
    bytes.resize(had + kBlock);
    const size_t got = file.read_at(bytes.data() + had, kBlock, offset);
    bytes.resize(had + got);
    if (got == 0) return;
    offset += static_cast<int64_t>(got);
    size_t from = 0;
    for (size_t end; (end = bytes.find('\n', from)) != std::string::npos; from = end + 1) {
      take(std::string_view(bytes).substr(from, end - from));
    }
    bytes.erase(0, from);
  }
}

struct Sums {
  std::array<double, kParts> seconds{};
  int64_t steps = 0;
};

// The start of the run whose timed step this is: a later one repeats steps of an earlier one, whose
// lines are gone. None for steps that no record keeps.
std::optional<size_t> start_of(int64_t step, const std::vector<RunRecord>& records) {
  std::optional<size_t> latest;
  for (size_t i = 0; i < records.size(); ++i) {
    const RunRecord& r = records[i];
    const bool timed = step >= r.first_step + r.warmup && step < r.first_step + std::ssize(r.steps);
    if (timed && (!latest || r.started > records[*latest].started)) latest = i;
  }
  return latest;
}

}  // namespace

std::optional<MetricsLine> parse_metrics_line(std::string_view line) {
  json all;
  try {
    all = parse_json(line, "metrics.jsonl");
  } catch (const Error&) {
    return std::nullopt;
  }
  if (!all.is_object()) return std::nullopt;
  const auto step = all.find("step");
  if (step == all.end() || !step->is_number_unsigned() || *step > uint64_t{1} << 62) {
    return std::nullopt;
  }
  MetricsLine read;
  read.step = step->get<int64_t>();
  read.evaluation = all.contains("eval_loss");
  if (!read.evaluation && !all.contains("loss")) return std::nullopt;
  read.loss = number_at(all, read.evaluation ? "eval_loss" : "loss", NAN);
  if (!read.evaluation) read.parts = parts_of(all);
  return read;
}

TrainingCurve read_training_curve(Fs& fs, const std::string& directory,
                                  std::vector<RunRecord>& records) {
  TrainingCurve curve;
  const std::string path = join_path(directory, "metrics.jsonl");
  const auto info = fs.info(path);
  if (!info || info->kind != FileKind::regular) return curve;
  std::vector<Sums> sums(records.size());
  for_each_line(*fs.open(path), [&](std::string_view text) {
    const std::optional<MetricsLine> line = parse_metrics_line(text);
    if (!line) return;
    (line->evaluation ? curve.evaluations : curve.steps).push_back({line->step, line->loss});
    const auto start = line->parts ? start_of(line->step, records) : std::nullopt;
    if (!start) return;
    Sums& sum = sums[*start];
    ++sum.steps;
    for (size_t i = 0; i < kParts; ++i) sum.seconds[i] += (*line->parts)[i];
  });
  for (size_t i = 0; i < records.size(); ++i) {
    if (sums[i].steps == 0) continue;
    RunRecord& r = records[i];
    for (size_t p = 0; p < kParts; ++p) {
      r.parts[p] = sums[i].seconds[p] / static_cast<double>(sums[i].steps);
    }
    r.parts_wall = std::accumulate(r.parts.begin(), r.parts.end(), 0.0);
  }
  return curve;
}

}  // namespace stretto
