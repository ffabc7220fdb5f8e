#include "cli/plan_options.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/units.h"

namespace stretto::cli {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& fix) {
  throw Error(ExitCode::usage, "plan: " + what, fix);
}

void check_counts(const PlanOptions& o) {
  const struct {
    const char* option;
    const std::optional<int64_t>& value;
  } counts[] = {{"--gpus", o.gpus},
                {"--global-batch", o.global_batch},
                {"--seq-len", o.seq_len},
                {"--dp", o.dp},
                {"--tp", o.tp},
                {"--pp", o.pp},
                {"--micro-batch", o.micro_batch},
                {"--interleave", o.interleave}};
  for (const auto& c : counts) {
    if (c.value && *c.value < 1) {
      refuse(fmt::format("{} is {}", c.option, *c.value), "give a whole number from 1 on");
    }
  }
  if (o.zero && (*o.zero < 0 || *o.zero > 3)) {
    refuse(fmt::format("--zero {} is no ZeRO stage", *o.zero), "use 0, 1, 2 or 3");
  }
}

void check_money(const PlanOptions& o) {
  const struct {
    const char* option;
    const std::optional<double>& value;
    double most;  // what is made of it can be counted
  } amounts[] = {{"--budget", o.budget, 1e15}, {"--price", o.price, 1e6}};
  for (const auto& a : amounts) {
    if (a.value && !(*a.value > 0 && *a.value <= a.most)) {
      refuse(fmt::format("{} is {}", a.option, *a.value),
             fmt::format("give an amount above zero, {:.0f} at most", a.most));
    }
  }
}

void check_scale(const PlanOptions& o) {
  const bool limits = o.budget || !o.deadline.empty();
  if (!o.scale && (limits || o.price || !o.tokens.empty() || !o.svg.empty())) {
    refuse("--tokens, --deadline, --budget, --price and --svg belong to --scale", "add --scale");
  }
  if ((limits || o.price) && o.tokens.empty()) {
    refuse("a deadline, a budget or a price needs the tokens of the run", "add --tokens 2T");
  }
  if (o.scale && o.gpus) {
    refuse("--gpus does not go with --scale, which goes through many counts",
           "leave out one of them");
  }
  if (o.scale && (o.explain || o.csv || o.rejected)) {
    refuse("--explain, --csv and --rejected do not go with --scale", "leave them out; --json does");
  }
}

}  // namespace

void check_options(const PlanOptions& o) {
  check_counts(o);
  check_money(o);
  check_scale(o);
  if (o.json && o.csv) refuse("both --json and --csv", "choose one of them");
  if ((o.json || o.csv) && (o.explain || o.rejected)) {
    refuse("--explain and --rejected are text: neither goes with --json or --csv",
           "leave them out; --json has the terms, and counts what was rejected");
  }
  if (!o.machine.empty() && o.cluster != "local") {
    refuse("--machine is of --cluster local", "add --cluster local");
  }
}

}  // namespace stretto::cli
