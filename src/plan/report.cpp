#include "plan/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "account/flops.h"
#include "account/parameters.h"
#include "base/shell_text.h"
#include "base/units.h"
#include "config/registry.h"
#include "plan/advice.h"

namespace stretto::plan {
namespace {

constexpr double kGiB = 0x1p30;

std::string header(const Plan& p) {
  const double half = interval_of(p.cluster, p.stack, p.work, p.constraints.devices);
  const int64_t untold = untold_size(p.cluster, p.stack, p.work);
  return fmt::format(
      "{}: {}, hidden {}, {}, {} parameters; {} of {}, {}\n"
      "{} of {} ({}); software {}\n"
      "constants: {}; interval +-{:.0f} %, most of it common to all lines{}\n",
      p.work.model.name, counted(p.work.model.layers, "layer"), p.work.model.hidden,
      counted(p.work.model.heads, "head"),
      format_count(static_cast<double>(parameter_count(p.work.model))),
      counted(p.work.global_batch, "sequence"), counted(p.work.seq_len, "token"),
      name_of(p.work.precision), counted(p.constraints.devices, "device"), p.cluster.name,
      p.cluster.description, p.stack.name, p.stack.fit_source, 100 * half,
      untold == 0 ? "" : fmt::format(": no run tells how fast products with {} are", untold));
}

// The words that make `stretto train` run this layout. Words that the user gave and that contradict
// it are replaced. Default values are left out, unless a word or a file may have set another one.
std::string train_words(const Plan& p, const Layout& l) {
  const Workload& w = p.work;
  const std::vector<std::string>& given = w.model_words;
  const RegistryModel* const named = given.empty() ? nullptr : lookup_model(given.front());
  const auto sets = [](const std::string& each, const std::string& key) {
    return each.starts_with(key + "=");
  };
  const bool file =
      given.empty() || std::any_of(given.begin(), given.end(), [&](const std::string& each) {
        return each.find('=') == std::string::npos && lookup_model(each) == nullptr;
      });
  std::vector<std::pair<std::string, std::string>> set;
  const auto word = [&](const char* key, const auto& value, bool by_default = false) {
    const bool said = std::any_of(given.begin(), given.end(),
                                  [&](const std::string& each) { return sets(each, key); });
    if (file || said || !by_default) set.emplace_back(key, fmt::format("{}", value));
  };
  const auto positions = [&](int64_t count) {
    return named != nullptr && named->shape.positions == count;
  };
  word("model.positions", w.model.positions, positions(w.model.positions));
  word("seq_len", w.seq_len, positions(w.seq_len));
  word("global_batch", w.global_batch);
  word("micro_batch", l.micro_batch);
  word("device", p.cluster.has_gpus() ? "cuda" : "cpu", !p.cluster.has_gpus());
  word("precision", name_of(w.precision), w.precision == Precision::fp32);
  word("activation_checkpointing", name_of(l.recompute), l.recompute == Checkpointing::none);
  word("parallel.dp", l.dp, l.dp == 1);
  word("parallel.tp", l.tp, l.tp == 1);
  word("parallel.sequence_parallel", l.sequence_parallel, l.tp == 1 || l.sequence_parallel);
  word("parallel.pp", l.pp, l.pp == 1);
  word("parallel.schedule", name_of(l.schedule), l.schedule == PipelineSchedule::one_f_one_b);
  word("parallel.interleave", l.interleave, l.interleave == 1);
  const Partition partition = l.pp > 1 ? l.partition : Partition();
  word("parallel.partition", partition.words(), partition == Partition());
  word("parallel.zero", l.zero, l.zero == 0);
  word("parallel.zero_group", l.zero_group, l.zero_group == 0);
  // One process drives all GPUs of its machine, but no other machine's.
  const bool one_machine = p.cluster.time_shared || l.devices() <= p.cluster.devices_per_node;
  std::string out = one_machine ? "" : fmt::format("mpirun -n {} ", l.devices());
  out += "stretto train";
  if (p.cluster.time_shared && l.devices() > 1) out += fmt::format(" -n {}", l.devices());
  if (given.empty()) out += " MODEL";
  for (const std::string& each : given) {
    const bool replaced =
        std::any_of(set.begin(), set.end(), [&](const auto& s) { return sets(each, s.first); });
    if (!replaced) out += " " + shell_word(each);
  }
  for (const auto& [key, value] : set) out += fmt::format(" {}={}", key, value);
  return out;
}

std::string answer(const Plan& p) {
  const Candidate& best = p.ranked.front();
  const size_t ties = static_cast<size_t>(std::count_if(
      p.ranked.begin(), p.ranked.end(), [&](const Candidate& c) { return c.tie == best.tie; }));
  std::string out = fmt::format(
      "\nbest: {}: {} s per step ({} to {}), {} tokens/s, {} of {}\n", describe(best.layout),
      format_digits(best.estimate.seconds, 4), format_digits(best.low, 3),
      format_digits(best.high, 3), format_count(best.tokens_per_second),
      format_bytes(best.memory.needed()), format_bytes(best.memory.capacity));
  std::vector<Term> terms = terms_of(best.estimate);
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Term& a, const Term& b) { return a.seconds > b.seconds; });
  out += "  its time:";
  const char* comma = "";
  for (const Term& t : terms) {
    const double share = 100 * t.seconds / best.estimate.seconds;
    if (share < 2) break;
    out += fmt::format("{} {} {:.0f} %", comma, t.name, share);
    comma = ",";
  }
  out += "\n";
  if (ties > 1) {
    out += fmt::format(
        "  {} more within {:.1f} % of it, less than the model can tell: of those that recompute no "
        "more than they must it needs the least memory\n",
        ties - 1, 100 * tie_width(p.stack));
  }
  if (p.stack.own_runtime) out += "  " + train_words(p, best.layout) + "\n";
  return out;
}

// Terms as percentages of the iteration; what they lack to 100 is products, attention and the rest.
std::string table(const Plan& p, size_t top) {
  std::string out =
      fmt::format("\n  # {:<44}{:>9}{:>15}{:>10}{:>7}{:>7}{:>11} |{:>7}{:>7}{:>6}{:>6}{:>6}{:>8}\n",
                  "layout", "s/it", "interval", "tokens/s", "MFU", "HFU", "memory", "bubble",
                  "imbal.", "tp", "dp", "pp", "passes");
  bool any_tie = false;
  std::vector<Layout> shown;
  for (size_t i = 0; i < std::min(top, p.ranked.size()); ++i) {
    const Candidate& c = p.ranked[i];
    const Estimate& e = c.estimate;
    const bool tied = (i > 0 && p.ranked[i - 1].tie == c.tie);
    any_tie = any_tie || tied;
    shown.push_back(c.layout);
    const auto share = [&](double seconds) {
      return fmt::format("{:.1f}%", 100 * seconds / e.seconds);
    };
    out += fmt::format(
        "{}{:>2} {:<44}{:>9}{:>15}{:>10}{:>7}{:>7}{:>11} "
        "|{:>7}{:>7}{:>6}{:>6}{:>6}{:>8}{}\n",
        tied ? '=' : ' ', i + 1, describe(c.layout), format_digits(e.seconds, 4),
        format_digits(c.low, 3) + ".." + format_digits(c.high, 3),
        format_count(c.tokens_per_second), fmt::format("{:.1f}%", 100 * c.mfu),
        fmt::format("{:.1f}%", 100 * c.hfu), format_bytes(c.memory.needed()), share(e.bubble),
        share(e.imbalance), share(e.tp_exposed), share(e.dp_exposed), share(e.pp_exposed),
        share(e.passes), c.memory.fit == plan::Fit::tight ? " tight" : "");
  }
  if (any_tie) {
    out +=
        "  = cannot be told apart from the line above; ties are ordered by memory, a layout before "
        "the same one that recomputes more\n";
  }
  out += "  MFU and HFU by the mpt convention, which counts attention as if it had no mask";
  const bool eight_bit = p.work.precision == Precision::amp_fp8 && p.cluster.matrix_flops_fp8 > 0;
  out += eight_bit ? ", of the peak of 8-bit products\n" : "\n";
  return out + fmt::format("  ({})\n", legend_of(shown));
}

std::string why(const Plan& p) {
  const Candidate& best = p.ranked.front();
  std::string out;
  const Candidate* next = nullptr;
  for (const Candidate& c : p.ranked) {
    if (c.tie != best.tie) {
      next = &c;
      break;
    }
  }
  if (next == nullptr) return "\nevery layout that fits is within the tie width\n";
  out += fmt::format("\nwhy the first: {} would take {} s ({:+.1f} %):", describe(next->layout),
                     format_digits(next->estimate.seconds, 4),
                     100 * (next->estimate.seconds / best.estimate.seconds - 1));
  const auto terms = difference(best.estimate, next->estimate);
  for (size_t i = 0; i < 4 && std::abs(terms[i].seconds) >= 0.1 * std::abs(terms[0].seconds); ++i) {
    out += fmt::format("{} {} {:+.3g} s", i == 0 ? "" : ",", terms[i].name, terms[i].seconds);
  }
  out += "\n";
  const auto wrong = upsets(p.cluster, p.stack, p.work, best.layout, next->layout);
  if (wrong.empty()) {
    out += "  no single constant, wrong by up to a factor of four, would make it the faster one\n";
  } else {
    out += fmt::format(
        "  it would be the faster one if {} were {:.3g} instead of {:.3g}, off by {:.1f} times\n"
        "  ({}: {})\n",
        info(wrong[0].constant).key, p.stack.constants[wrong[0].constant] * wrong[0].factor,
        p.stack.constants[wrong[0].constant], std::max(wrong[0].factor, 1 / wrong[0].factor),
        info(wrong[0].constant).key, info(wrong[0].constant).meaning);
  }
  return out;
}

std::string advice_text(const Plan& p) {
  const auto list = advice_for(p.cluster, p.stack, p.work, p.ranked.front());
  if (list.empty()) return "";
  std::string out = "\nadvice, with the predicted change of the time:\n";
  for (const Advice& a : list) {
    out += fmt::format("  {:<18}{:>5.1f} %  {}{}\n", a.rule, -100 * a.saving(), a.text,
                       a.changes_model ? " (changes the model; at equal work)" : "");
  }
  return out;
}

std::string nothing_fits(const Plan& p) {
  if (!p.nearest) return "no layout obeys the constraints; see the reasons above\n";
  const Candidate& c = *p.nearest;
  std::string out =
      fmt::format("nothing fits: the nearest is {} with {:.1f} of {:.1f} GiB\n", describe(c.layout),
                  c.memory.needed() / kGiB, c.memory.capacity / kGiB);
  if (c.memory.fit == Fit::tight && !p.constraints.allow_tight)
    return out + fmt::format("  --tight takes what needs more than {}\n", tight_share());
  const auto change = nearest_fit(p.cluster, p.stack, p.work, c.layout);
  out += change
             ? fmt::format("  it would fit with: {}\n", change->text)
             : "  no change of micro-batch, recomputation, sharding or device count makes it fit\n";
  return out;
}

std::string rejected_text(const Plan& p, bool list) {
  std::string out =
      fmt::format("\n{} looked at in {:.0f} ms, {} ranked; left out{}:\n",
                  counted(static_cast<int64_t>(p.considered), "layout"), 1e3 * p.wall_seconds,
                  p.ranked.size(), list ? "" : " (--rejected lists them)");
  for (size_t i = 0; i < kRejects; ++i) {
    if (p.rejected[i] == 0) continue;
    out += fmt::format("  {:>7}  {}\n", p.rejected[i], name_of(static_cast<Reject>(i)));
  }
  if (!list) return out;
  for (const auto& [layout, reason] : p.rejected_layouts) {
    out += fmt::format("  {:<44} {}\n", describe(layout), name_of(reason));
  }
  return out;
}

nlohmann::json memory_json(const StageMemory& m) {
  return {{"weights", m.weights},     {"states", m.states}, {"activations", m.checkpoints},
          {"working_set", m.working}, {"logits", m.logits}, {"fixed", m.fixed},
          {"total", m.total()}};
}

std::string memory_line(const char* name, const StageMemory& m) {
  return fmt::format(
      "  {:<8}{:>7.2f} GiB = weights and gradients {:.2f} + states {:.2f} + activations {:.2f} + "
      "working set "
      "{:.2f} + logits {:.2f} + fixed {:.2f}\n",
      name, m.total() / kGiB, m.weights / kGiB, m.states / kGiB, m.checkpoints / kGiB,
      m.working / kGiB, m.logits / kGiB, m.fixed / kGiB);
}

// The tree of terms of one layout.
std::string explain_text(const Plan& p, const Candidate& c) {
  std::string out = fmt::format("\n{}: {} s per iteration\n", describe(c.layout),
                                format_digits(c.estimate.seconds, 4));
  for (const Term& s : terms_of(c.estimate)) {
    if (s.seconds == 0) continue;
    out += fmt::format("  {:<26}{:>10} s{:>7.1f} %\n", s.name, format_digits(s.seconds, 4),
                       100 * s.seconds / c.estimate.seconds);
  }
  if (c.estimate.hidden_comm > 0) {
    out += fmt::format("  (hidden behind compute: {} s of traffic)\n",
                       format_digits(c.estimate.hidden_comm, 3));
  }
  const auto& stages = c.estimate.stage_seconds;
  const int64_t rounds = micro_batches(p.work, c.layout);
  out += fmt::format("stages, one micro-batch: first {} s, middle {} s, last {} s; {}\n",
                     format_digits(stages.front(), 4), format_digits(stages[stages.size() / 2], 4),
                     format_digits(stages.back(), 4), counted(rounds, "micro-batch"));
  out += memory_line("first", c.memory.first) + memory_line("middle", c.memory.middle) +
         memory_line("last", c.memory.last);
  if (c.memory.exact) {
    out += "  (the engine's own list of tensors: exact)\n";
  } else if (c.memory.listed) {
    out += "  (the engine's own list of tensors, without what its kernels work with)\n";
  } else if (c.memory.reserved() > c.memory.needed()) {
    out += fmt::format("  (a monitor would show {:.1f} GiB: the allocator holds what it can)\n",
                       c.memory.reserved() / kGiB);
  }
  out += fmt::format("  {} ({:.1f} % of {:.1f} GiB needed)\n", name_of(c.memory.fit),
                     100 * c.memory.needed() / c.memory.capacity, c.memory.capacity / kGiB);
  return out;
}

}  // namespace

std::string plan_text(const Plan& p, size_t top, bool explain, bool rejected) {
  std::string out = header(p);
  if (p.ranked.empty()) return out + rejected_text(p, rejected) + nothing_fits(p);
  out += answer(p) + table(p, top);
  out += why(p) + advice_text(p) + rejected_text(p, rejected);
  if (explain) {
    for (size_t i = 0; i < std::min<size_t>(top, p.ranked.size()); ++i) {
      out += explain_text(p, p.ranked[i]);
    }
  }
  return out;
}

nlohmann::json plan_json(const Plan& p, size_t top) {
  nlohmann::json out = {{"model", p.work.model.name},
                        {"cluster", p.cluster.name},
                        {"software", p.stack.name},
                        {"devices", p.constraints.devices},
                        {"global_batch", p.work.global_batch},
                        {"seq_len", p.work.seq_len},
                        {"precision", name_of(p.work.precision)},
                        {"constants", p.stack.fit_source},
                        {"interval", interval_of(p.stack, p.constraints.devices)},
                        {"considered", p.considered},
                        {"layouts", nlohmann::json::array()}};
  for (size_t i = 0; i < kRejects; ++i) {
    out["rejected"][name_of(static_cast<Reject>(i))] = p.rejected[i];
  }
  for (size_t i = 0; i < std::min(top, p.ranked.size()); ++i) {
    const Candidate& c = p.ranked[i];
    nlohmann::json row = {{"dp", c.layout.dp},
                          {"tp", c.layout.tp},
                          {"pp", c.layout.pp},
                          {"interleave", c.layout.interleave},
                          {"schedule", name_of(c.layout.schedule)},
                          {"micro_batch", c.layout.micro_batch},
                          {"zero", c.layout.zero},
                          {"zero_group", c.layout.zero_group},
                          {"recompute", name_of(c.layout.recompute)},
                          {"sequence_parallel", c.layout.sequence_parallel},
                          {"partition", c.layout.partition.words()},
                          {"seconds", c.estimate.seconds},
                          {"seconds_low", c.low},
                          {"seconds_high", c.high},
                          {"tokens_per_second", c.tokens_per_second},
                          {"mfu", c.mfu},
                          {"hfu", c.hfu},
                          {"tie", c.tie},
                          {"memory_needed", c.memory.needed()},
                          {"memory_fit", name_of(c.memory.fit)},
                          {"memory",
                           {{"first", memory_json(c.memory.first)},
                            {"middle", memory_json(c.memory.middle)},
                            {"last", memory_json(c.memory.last)}}}};
    for (const Term& s : terms_of(c.estimate)) row["terms"][s.name] = s.seconds;
    if (p.stack.own_runtime) row["command"] = train_words(p, c.layout);
    out["layouts"].push_back(row);
  }
  if (p.ranked.empty() && p.nearest) {
    out["nearest"] = {{"layout", describe(p.nearest->layout)},
                      {"memory_needed", p.nearest->memory.needed()},
                      {"memory", p.nearest->memory.capacity}};
    const auto change = nearest_fit(p.cluster, p.stack, p.work, p.nearest->layout);
    if (change) out["nearest"]["would_fit_with"] = change->text;
  }
  if (!p.ranked.empty()) {
    for (const Advice& a : advice_for(p.cluster, p.stack, p.work, p.ranked.front())) {
      out["advice"].push_back({{"rule", a.rule},
                               {"text", a.text},
                               {"saving", a.saving()},
                               {"changes_model", a.changes_model}});
    }
  }
  return out;
}

std::string plan_csv(const Plan& p, size_t top) {
  std::string out =
      "rank,tie,dp,tp,pp,interleave,schedule,micro_batch,zero,zero_group,recompute,sequence_"
      "parallel,partition,seconds,"
      "seconds_low,seconds_high,tokens_per_second,mfu,hfu,memory_bytes,memory_fit\n";
  for (size_t i = 0; i < std::min(top, p.ranked.size()); ++i) {
    const Candidate& c = p.ranked[i];
    out += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.5f},{:.5f},"
        "{:.0f},{}\n",
        i + 1, c.tie, c.layout.dp, c.layout.tp, c.layout.pp, c.layout.interleave,
        name_of(c.layout.schedule), c.layout.micro_batch, c.layout.zero, c.layout.zero_group,
        name_of(c.layout.recompute), c.layout.sequence_parallel, c.layout.partition.words(),
        c.estimate.seconds, c.low, c.high, c.tokens_per_second, c.mfu, c.hfu, c.memory.needed(),
        name_of(c.memory.fit));
  }
  return out;
}

}  // namespace stretto::plan
