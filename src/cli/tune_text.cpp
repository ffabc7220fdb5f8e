#include "cli/tune_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "base/text_table.h"
#include "base/units.h"

namespace stretto::cli {
namespace {

double gain(const TuneResult& r) { return r.before / r.after - 1; }

}  // namespace

std::string tune_text(const TuneResult& r) {
  TextTable table({"choice", ">options", ">before", ">after", ">of a step"});
  for (size_t i = 0; i < r.choices.size(); ++i) {
    const Tunable& choice = r.choices[i];
    const auto& effects = r.effects[i];
    const double less =
        effects[static_cast<size_t>(r.chosen[i])] - effects[static_cast<size_t>(choice.now)];
    table.add({choice.name, fmt::format("{}", choice.options), fmt::format("{}", choice.now),
               fmt::format("{}", r.chosen[i]), fmt::format("{:+.2f} %", 100 * less / r.before)});
  }
  return fmt::format(
      "{}\nThe last column is an estimate, mostly noise for a single choice; what counts is "
      "a step before {}, after {}, in turn: {:+.2f} % tokens/s, standard error {:.2f} %\n{}",
      table.text(output_width()), format_seconds(r.before), format_seconds(r.after), 100 * gain(r),
      100 * r.uncertainty, r.kept ? "later runs use it" : "not kept: " + r.why_not);
}

nlohmann::ordered_json tune_json(const TuneResult& r) {
  nlohmann::ordered_json out = {{"seconds_before", r.before},
                                {"seconds_after", r.after},
                                {"gain", gain(r)},
                                {"standard_error", r.uncertainty},
                                {"kept", r.kept}};
  if (!r.kept) out["why_not_kept"] = r.why_not;
  out["choices"] = out["draws"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < r.choices.size(); ++i) {
    out["choices"].push_back({{"name", r.choices[i].name},
                              {"before", r.choices[i].now},
                              {"after", r.chosen[i]},
                              {"effects", r.effects[i]}});
  }
  for (const auto& draw : r.draws) {
    out["draws"].push_back({{"options", draw.options}, {"seconds", draw.seconds}});
  }
  return out;
}

}  // namespace stretto::cli
