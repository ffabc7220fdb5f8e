#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "plan/calibrate.h"

namespace stretto::plan {

std::string calibration_text(const Calibration& r) {
  std::string out = fmt::format(
      "{}; measured over predicted before the fit: {:.3f}; spread after it: {:.1f} %\n",
      counted(static_cast<int64_t>(r.rows), "timed run"), r.common_factor, 100 * r.spread);
  if (r.memory_rows > 0) {
    out += fmt::format(
        "memory of {} of them: predicted {:.1f} % from measured in the median, {:.1f} % at worst "
        "({})\n",
        r.memory_rows, 100 * r.memory_error, 100 * r.worst_memory_error, r.worst_memory);
  }
  out += fmt::format("\n  {:<20}{:>12}{:>9}{:>12}{:>13}  meaning\n", "constant", "value", "+-",
                     "prior", "identified");
  for (const FoundConstant& f : r.found) {
    out += fmt::format("  {:<20}{:>12.4g}{:>8.0f}%{:>12.4g}{:>12.0f}%  {} ({})\n", info(f.id).key,
                       f.value, 100 * f.sigma, f.prior, 100 * f.identified, info(f.id).meaning,
                       info(f.id).unit);
  }
  for (const std::string& doubt : r.doubts) out += fmt::format("\nDOUBTFUL: {}", doubt);
  if (!r.doubts.empty()) out += "\n";
  if (!r.has_enough_runs()) {
    out += fmt::format(
        "\nfewer than {} runs do not tell how far other layouts will be off: plans with these "
        "constants keep an interval of 25 %\n",
        Calibration::kEnoughRuns);
  }
  if (!r.suspects.empty()) out += "\nsuspect runs, beyond three times the spread: measure again\n";
  for (const SuspectRow& s : r.suspects) {
    out += fmt::format("  {:<23} {:>+7.1f} %\n", s.id, 100 * s.residual);
  }
  if (!r.proposals.empty()) out += "\nthe next runs that narrow the intervals most\n";
  std::vector<Layout> proposed;
  for (const ProposedRun& p : r.proposals) {
    out += fmt::format("  {:<13} {:<39} {:>10.4g} s  narrows by {:.2f} points, mostly {}\n",
                       p.work.model.name, describe(p.layout), p.predicted_seconds, p.gain,
                       p.separates);
    proposed.push_back(p.layout);
  }
  if (!proposed.empty()) out += fmt::format("  ({})\n", legend_of(proposed));
  return out;
}

nlohmann::json calibration_json(const Calibration& r) {
  nlohmann::json out = {{"rows", r.rows},
                        {"memory_rows", r.memory_rows},
                        {"memory_median_error", r.memory_error},
                        {"memory_worst_error", r.worst_memory_error},
                        {"common_factor", r.common_factor},
                        {"spread", r.spread},
                        {"enough_runs", r.has_enough_runs()},
                        {"constants", nlohmann::json::array()},
                        {"doubts", r.doubts},
                        {"suspects", nlohmann::json::array()},
                        {"proposals", nlohmann::json::array()}};
  for (const FoundConstant& f : r.found) {
    out["constants"].push_back({{"key", info(f.id).key},
                                {"value", f.value},
                                {"relative_sigma", f.sigma},
                                {"prior", f.prior},
                                {"identified", f.identified},
                                {"unit", info(f.id).unit}});
  }
  for (const SuspectRow& s : r.suspects) {
    out["suspects"].push_back({{"id", s.id}, {"residual", s.residual}});
  }
  for (const ProposedRun& p : r.proposals) {
    out["proposals"].push_back({{"layout", describe(p.layout)},
                                {"global_batch", p.work.global_batch},
                                {"predicted_seconds", p.predicted_seconds},
                                {"gain_points", p.gain},
                                {"separates", p.separates}});
  }
  return out;
}

}  // namespace stretto::plan
