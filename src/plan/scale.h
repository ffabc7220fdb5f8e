// From one iteration to a training run on many devices: failures, stragglers, money, time.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/search.h"

namespace stretto::plan {

struct Goodput {
  double share = 1;  // fraction of the wall time in which the model trains
  double hours_between_failures = 0;
  double checkpoint_seconds = 0;
  double checkpoint_interval = 0;  // seconds; the best interval
};
Goodput goodput(const Cluster& cluster, const Stack& stack, const Workload& work, int64_t devices);

struct ScalePoint {
  int64_t devices = 0;
  bool feasible = false;
  Candidate best;
  Goodput goodput;
  double straggler = 1;
  double tokens_per_day = 0;
  double interval = 0;  // relative half width
  double days = 0;      // days for the requested tokens; 0: none were requested
  double cost = 0;      // dollars for the same; 0: no price is known
};

struct ScaleRequest {
  std::vector<int64_t> devices;      // empty: 1,000 to 100,000 in steps of about 1.5
  double tokens = 0;                 // of the whole run; 0: not asked
  double budget = 0;                 // $; 0: none
  double deadline_days = 0;          // 0: none
  double price_per_device_hour = 0;  // 0: the cluster's
};

struct ScalePlan {
  std::vector<ScalePoint> points;
  std::optional<size_t> best;  // most tokens per day (within budget and deadline)
  // The first count beyond which a doubling brings less than 30 % more tokens per day.
  std::optional<size_t> stops_helping;
  std::string verdict;
  // If no count has a layout: the plan of the largest count at which only memory is missing, else
  // that of the largest count.
  std::optional<Plan> empty;
};

ScalePlan scale_plan(const Cluster& cluster, const Stack& stack, const Workload& work,
                     const Constraints& constraints, const ScaleRequest& request);

std::string scale_table(const ScalePlan& plan, size_t width);
std::string scale_chart(const ScalePlan& plan);  // ASCII
nlohmann::json scale_json(const ScalePlan& plan);
// `title` is markup: names in it must be escaped.
std::string scale_chart_svg(const ScalePlan& plan, const std::string& title);

}  // namespace stretto::plan
