#include "plan/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "account/flops.h"
#include "account/parameters.h"
#include "base/ceil_div.h"
#include "base/text_table.h"
#include "base/units.h"

namespace stretto::plan {
namespace {

// Per parameter. Our own checkpoints hold what our format has; those of other software an fp32
// weight, two moments and, if that weight is a master, the compute copy, too.
double saved_bytes(const Stack& stack, Precision precision) {
  if (stack.own_runtime) return static_cast<double>(checkpoint_bytes(precision));
  return types_of(precision).master ? 14 : 12;
}

// With a budget or a deadline the answer may be far fewer devices than without.
std::vector<int64_t> default_counts(const Cluster& cluster, bool limited) {
  std::vector<int64_t> counts;
  const int64_t node = cluster.devices_per_node;
  for (int64_t base : {64,   128,  192,  256,   384,   512,   768,   1024,  1536,  2048, 3072,
                       4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152, 65536, 98304}) {
    if (base < 1024 && !limited) continue;
    const int64_t n = round_up(base, node);
    if (cluster.max_devices > 0 && n > cluster.max_devices) break;
    counts.push_back(n);
  }
  if (!counts.empty()) return counts;
  // For a cluster that is smaller than that: doublings up to its size.
  for (int64_t n = node; counts.empty() || counts.back() < cluster.max_devices; n *= 2) {
    if (n >= cluster.max_devices / 64) counts.push_back(std::min(n, cluster.max_devices));
  }
  return counts;
}

}  // namespace

Goodput goodput(const Cluster& cluster, const Stack& stack, const Workload& work, int64_t devices) {
  Goodput g;
  const double rate = cluster.failures_per_device_hour * static_cast<double>(devices);
  g.checkpoint_seconds = saved_bytes(stack, work.precision) *
                         static_cast<double>(parameter_count(work.model)) /
                         cluster.checkpoint_bandwidth;
  if (rate <= 0) return g;
  g.hours_between_failures = 1 / rate;
  const double between = 3600 / rate;
  g.checkpoint_interval = std::sqrt(2 * g.checkpoint_seconds * between);
  // Time that does not train: writing checkpoints, repeating half an interval per failure,
  // restarting.
  const double lost = g.checkpoint_seconds / g.checkpoint_interval +
                      (0.5 * g.checkpoint_interval + cluster.restart_seconds) / between;
  g.share = std::max(0.0, 1 - lost);
  return g;
}

namespace {

// Among the counts that have a layout, the point with the smallest `figure`.
const ScalePoint& least(const ScalePlan& plan, double ScalePoint::*figure) {
  return *std::min_element(plan.points.begin(), plan.points.end(),
                           [&](const ScalePoint& a, const ScalePoint& b) {
                             if (a.feasible != b.feasible) return a.feasible;
                             return a.*figure < b.*figure;
                           });
}

// Says that no count meets budget or deadline, and how close the nearest one comes.
std::string missed_text(const ScalePlan& plan, const ScaleRequest& request) {
  std::string limits, nearest;
  if (request.budget > 0) {
    const ScalePoint& p = least(plan, &ScalePoint::cost);
    limits = "the budget";
    nearest = fmt::format("; the cheapest: ${} with {} devices",
                          with_commas(static_cast<int64_t>(p.cost)), with_commas(p.devices));
  }
  if (request.deadline_days > 0) {
    const ScalePoint& p = least(plan, &ScalePoint::days);
    limits += limits.empty() ? "the deadline" : " and the deadline";
    nearest += fmt::format("; the soonest: {} days with {} devices", format_digits(p.days, 3),
                           with_commas(p.devices));
  }
  return fmt::format("none of these counts meets {}{}", limits, nearest);
}

std::string chosen_text(const ScalePlan& plan, const ScaleRequest& request) {
  const bool limited = request.budget > 0 || request.deadline_days > 0;
  if (!plan.best) return limited ? missed_text(plan, request) : "nothing fits";
  const ScalePoint& p = plan.points[*plan.best];
  std::string text = request.deadline_days > 0
                         ? fmt::format("{} of these within {} days",
                                       p.cost > 0 ? "cheapest" : "fewest device hours",
                                       format_digits(request.deadline_days, 3))
                     : request.budget > 0 ? "fastest of these within the budget"
                                          : "most tokens a day";
  text += fmt::format(" (*): {} devices, {} tokens a day", with_commas(p.devices),
                      format_count(p.tokens_per_day));
  if (p.days > 0) text += fmt::format(", {:.1f} days", p.days);
  if (p.cost > 0) text += fmt::format(", ${}", with_commas(static_cast<int64_t>(p.cost)));
  return text;
}

// With a deadline: the cheapest count that meets it, by device hours if no price is known.
// Otherwise the fastest.
std::optional<size_t> best_point(const std::vector<ScalePoint>& points,
                                 const ScaleRequest& request) {
  const auto hours = [](const ScalePoint& q) { return static_cast<double>(q.devices) * q.days; };
  std::optional<size_t> best;
  for (size_t i = 0; i < points.size(); ++i) {
    const ScalePoint& p = points[i];
    if (!p.feasible || (request.budget > 0 && p.cost > request.budget)) continue;
    if (request.deadline_days > 0 && p.days > request.deadline_days) continue;
    if (!best || (request.deadline_days > 0 ? hours(p) < hours(points[*best])
                                            : p.tokens_per_day > points[*best].tokens_per_day)) {
      best = i;
    }
  }
  return best;
}

// The smallest count from which no doubling helps any more.
std::optional<size_t> last_help(const std::vector<ScalePoint>& points) {
  std::optional<size_t> found;
  for (size_t i = points.size(); i-- > 0;) {
    const ScalePoint& p = points[i];
    const auto twice = std::find_if(points.begin(), points.end(), [&](const ScalePoint& q) {
      return q.devices >= 2 * p.devices;
    });
    if (!p.feasible || twice == points.end()) continue;
    if (twice->tokens_per_day >= 1.3 * p.tokens_per_day) break;
    found = i;
  }
  return found;
}

std::string verdict_of(const ScalePlan& plan, const ScaleRequest& request) {
  const bool any = std::any_of(plan.points.begin(), plan.points.end(),
                               [](const ScalePoint& p) { return p.feasible; });
  if (!any) return "nothing fits";
  std::string text = chosen_text(plan, request) + "\n";
  if (plan.stops_helping) {
    text += fmt::format("beyond {} devices doubling brings less than 30 % more tokens a day",
                        with_commas(plan.points[*plan.stops_helping].devices));
  } else {
    text += "more devices keep helping over the counts shown";
  }
  const auto most = std::max_element(
      plan.points.begin(), plan.points.end(),
      [](const ScalePoint& a, const ScalePoint& b) { return a.tokens_per_day < b.tokens_per_day; });
  if (most != plan.points.end() && most + 1 != plan.points.end() && most->feasible) {
    const bool some =
        std::any_of(most + 1, plan.points.end(), [](const ScalePoint& p) { return p.feasible; });
    text += fmt::format(
        "; beyond {} {}", with_commas(most->devices),
        some ? "they bring none at all" : "nothing fits, or the batch cannot be divided");
  }
  return text;
}

}  // namespace

ScalePlan scale_plan(const Cluster& cluster, const Stack& stack, const Workload& work,
                     const Constraints& constraints, const ScaleRequest& request) {
  ScalePlan out;
  const std::vector<int64_t> counts =
      request.devices.empty()
          ? default_counts(cluster, request.budget > 0 || request.deadline_days > 0)
          : request.devices;
  const double price = request.price_per_device_hour > 0 ? request.price_per_device_hour
                                                         : cluster.price_per_device_hour;
  // Every estimate contains the fitted spread between nodes; the cluster's own is added only as far
  // as it is larger.
  const double extra = std::max(0.0, cluster.straggler_sigma - stack.constants[Constant::spread]);
  for (int64_t n : counts) {
    ScalePoint p;
    p.devices = n;
    Constraints limits = constraints;
    limits.devices = n;
    Plan plan = make_plan(cluster, stack, work, limits);
    p.goodput = goodput(cluster, stack, work, n);
    p.straggler = 1 + straggler_wait(extra, cluster.nodes_for(n));
    p.interval = interval_of(stack, n);
    if (!plan.ranked.empty()) {
      p.feasible = true;
      p.best = plan.ranked.front();
      p.tokens_per_day = p.best.tokens_per_second / p.straggler * p.goodput.share * 86400;
    }
    if (request.tokens > 0 && p.tokens_per_day > 0) {
      p.days = request.tokens / p.tokens_per_day;
      p.cost = p.days * 24 * price * static_cast<double>(n);
    }
    if (!p.feasible && (plan.nearest || !out.empty || !out.empty->nearest)) {
      out.empty = std::move(plan);
    }
    out.points.push_back(p);
  }
  const bool any = std::any_of(out.points.begin(), out.points.end(),
                               [](const ScalePoint& p) { return p.feasible; });
  if (any) out.empty.reset();
  out.best = best_point(out.points, request);
  out.stops_helping = last_help(out.points);
  out.verdict = verdict_of(out, request);
  return out;
}

std::string scale_table(const ScalePlan& plan, size_t width) {
  TextTable table({">devices", "layout", ">s/it", ">MFU", ">straggler", ">goodput", ">tokens/day",
                   ">+-", ">days", ">cost $"});
  std::vector<Layout> shown;
  for (size_t i = 0; i < plan.points.size(); ++i) {
    const ScalePoint& p = plan.points[i];
    if (!p.feasible) {
      table.add({fmt::format("{} ", p.devices), "nothing fits, or the batch cannot be divided", "",
                 "", "", "", "", "", "", ""});
      continue;
    }
    shown.push_back(p.best.layout);
    table.add({fmt::format("{}{}", p.devices, plan.best && *plan.best == i ? '*' : ' '),
               describe(p.best.layout), format_digits(p.best.estimate.seconds, 3),
               fmt::format("{:.1f}%", 100 * p.best.mfu), fmt::format("{:.3f}", p.straggler),
               fmt::format("{:.1f}%", 100 * p.goodput.share), format_count(p.tokens_per_day),
               fmt::format("{:.0f}%", 100 * p.interval),
               p.days > 0 ? fmt::format("{:.1f}", p.days) : "-",
               p.cost > 0 ? with_commas(static_cast<int64_t>(p.cost)) : "-"});
  }
  return table.text(width) + (shown.empty() ? "" : fmt::format("  ({})\n", legend_of(shown)));
}

std::string scale_chart(const ScalePlan& plan) {
  double most = 0;
  for (const ScalePoint& p : plan.points) most = std::max(most, p.tokens_per_day);
  std::string out =
      "tokens per day against devices (linear; = is what perfect scaling adds, > more than fits)\n";
  if (most <= 0) return out;
  const ScalePoint* first = nullptr;
  for (const ScalePoint& p : plan.points) {
    if (first == nullptr && p.feasible) first = &p;
    const double ideal = first == nullptr ? 0
                                          : first->tokens_per_day * static_cast<double>(p.devices) /
                                                static_cast<double>(first->devices);
    const size_t bar = static_cast<size_t>(std::lround(50 * p.tokens_per_day / most));
    const double whole = std::round(50 * ideal / most);
    const size_t full = static_cast<size_t>(std::min(60.0, whole));
    out += fmt::format("{:>9} {}{}{} {}\n", p.devices, std::string(bar, '#'),
                       std::string(full > bar ? full - bar : 0, '='), whole > 60 ? ">" : "",
                       p.feasible ? format_count(p.tokens_per_day) : "-");
  }
  return out;
}

nlohmann::json scale_json(const ScalePlan& plan) {
  nlohmann::json out = {{"verdict", plan.verdict}, {"points", nlohmann::json::array()}};
  if (plan.best) out["best_devices"] = plan.points[*plan.best].devices;
  if (plan.stops_helping) out["stops_helping"] = plan.points[*plan.stops_helping].devices;
  for (const ScalePoint& p : plan.points) {
    nlohmann::json row = {{"devices", p.devices}, {"feasible", p.feasible}};
    if (p.feasible) {
      row["layout"] = describe(p.best.layout);
      row["seconds"] = p.best.estimate.seconds;
      row["mfu"] = p.best.mfu;
      row["straggler"] = p.straggler;
      row["goodput"] = p.goodput.share;
      row["tokens_per_day"] = p.tokens_per_day;
      row["interval"] = p.interval;
      if (p.days > 0) row["days"] = p.days;
      if (p.cost > 0) row["cost"] = p.cost;
    }
    out["points"].push_back(row);
  }
  return out;
}

}  // namespace stretto::plan
