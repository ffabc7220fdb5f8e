#include "bench/report_losses.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/ceil_div.h"

namespace stretto {
namespace {

using nlohmann::json;
using Point = TrainingCurve::Point;

constexpr size_t kMost = 2000;  // points of a curve

// `longest`: steps of the longest curve, which gets `points`.
int64_t stretch_for(int64_t longest, size_t points) {
  const auto most = static_cast<int64_t>(points);
  return longest <= most ? 1 : 2 * ceil_div(longest, most);
}

json drawn(const Point& p) {
  const bool finite = std::isfinite(p.loss);
  return {p.step, finite ? json(std::round(p.loss * 1e6) / 1e6) : json()};
}

json thinned(const std::vector<Point>& points, int64_t stretch) {
  const auto height = [&](size_t i) {
    return std::isfinite(points[i].loss) ? points[i].loss : INFINITY;
  };
  std::set<size_t> kept;
  if (!points.empty()) kept = {0, points.size() - 1};
  for (size_t from = 0, to = 0; from < points.size(); from = to) {
    const int64_t part = (points[from].step - 1) / stretch;
    size_t low = from, high = from;
    for (to = from; to < points.size() && (points[to].step - 1) / stretch == part; ++to) {
      if (height(to) < height(low)) low = to;
      if (height(to) > height(high)) high = to;
    }
    kept.insert({low, high});
  }
  json out = json::array();
  for (const size_t i : kept) out.push_back(drawn(points[i]));
  return out;
}

// Equal for runs that differ only in how their work is divided: their losses should agree.
std::string learning_hash(const RunRecord& r) {
  Config c = r.config;
  c.parallel = {};
  c.micro_batch = 1;
  c.threads = c.memory_limit = c.logits_chunk = 0;
  c.activation_checkpointing = Checkpointing::none;
  c.activation_offload = c.optimizer_offload = false;
  return config_hash(c);
}

constexpr size_t kAlikeSteps = 8;  // differences from rounding are still small

}  // namespace

int64_t curve_stretch(const std::vector<RunRecord>& records) {
  constexpr size_t kAllPoints = 100'000, kFewest = 200;  // in total; and per run
  int64_t longest = 0;
  for (const RunRecord& r : records) longest = std::max(longest, std::ssize(r.steps));
  const size_t runs = std::max<size_t>(1, records.size());
  return stretch_for(longest, std::clamp(kAllPoints / runs, kFewest, kMost));
}

json loss_curve(const RunRecord& record, int64_t stretch) {
  std::vector<Point> points;
  for (const StepSample& step : record.steps) {
    points.push_back({record.first_step + std::ssize(points), step.loss});
  }
  return thinned(points, stretch);
}

json training_losses(const TrainingCurve& curve) {
  if (curve.steps.empty()) return nullptr;
  const auto all = [](const std::vector<Point>& points) {
    return thinned(points, points.size() <= kMost ? 1 : stretch_for(points.back().step, kMost));
  };
  return {{"steps", all(curve.steps)}, {"evaluations", all(curve.evaluations)}};
}

json loss_spread(const std::vector<RunRecord>& records) {
  std::map<std::string, std::vector<const RunRecord*>> groups;
  const std::vector<const RunRecord*>* runs = nullptr;
  for (const RunRecord& r : records) {
    if (r.status != RunStatus::ok || r.steps.size() < 2 || r.first_step != 1) continue;
    auto& group = groups[learning_hash(r)];
    group.push_back(&r);
    if (runs == nullptr || group.size() > runs->size()) runs = &group;
  }
  if (runs == nullptr || runs->size() < 2) return nullptr;
  double most = 0;
  for (size_t i = 0; i < kAlikeSteps; ++i) {
    double low = INFINITY, high = -INFINITY;
    for (const RunRecord* r : *runs) {
      if (i >= r->steps.size() || !std::isfinite(r->steps[i].loss)) continue;
      low = std::min(low, r->steps[i].loss);
      high = std::max(high, r->steps[i].loss);
    }
    most = std::max(most, high - low);
  }
  return {{"runs", runs->size()}, {"steps", kAlikeSteps}, {"most", most}};
}

}  // namespace stretto
