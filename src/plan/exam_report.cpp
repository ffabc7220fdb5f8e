#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "plan/exam.h"
#include "plan/statistics.h"

namespace stretto::plan {
namespace {

std::string pair_text(const Errors& e) {
  return e.rows == 0 ? "-" : fmt::format("{:.2f} / {:.2f}", e.median, e.p90);
}

template <typename Both>  // errors with and without the odd rows
const char* verdict(const Both& e, double target_median, double target_p90) {
  if (e.all.meets(target_median, target_p90)) return "met";
  return e.clean.meets(target_median, target_p90) ? "missed; met without the odd rows" : "missed";
}

double coverage(const HeldOut& h) {  // percent
  return 100 * static_cast<double>(h.covered) / static_cast<double>(h.all.rows);
}

std::string targets_line(const ExamTable& t) {
  return fmt::format("{:g} / {:g}", t.spec.target_median, t.spec.target_p90);
}

std::string seconds_rows(const ExamTable& t) {
  std::string out;
  for (const HeldOut& h : t.seconds) {
    if (h.all.rows == 0) {
      out += fmt::format("| {} | {} | {} | - | - | - | {} | no group leaves enough rows to fit |\n",
                         t.spec.name, t.rows, h.key, targets_line(t));
      continue;
    }
    out += fmt::format("| {} | {} | {} | {} | {} | {:.0f} % | {} | {} |\n", t.spec.name, h.all.rows,
                       h.key, pair_text(h.all), pair_text(h.clean), coverage(h), targets_line(t),
                       verdict(h, t.spec.target_median, t.spec.target_p90));
  }
  return out;
}

std::string unfair_lines(const ExamTable& t) {
  std::string out;
  for (const HeldOut& h : t.seconds) {
    if (h.unfair.empty() || h.unfair_errors.rows == 0) continue;
    out += fmt::format(
        "* {}: {} = {} is {} of {} rows; predicted from the other {} rows alone: {} %.\n",
        t.spec.name, h.key, h.unfair.front(), h.unfair_errors.rows, t.rows,
        t.rows - h.unfair_errors.rows, pair_text(h.unfair_errors));
  }
  return out;
}

std::string floor_row(const ExamTable& t) {
  if (t.floor.rows == 0) return "";
  return fmt::format("| {} | {} of {} | {:.2f} / {:.2f} | {:g} | {} | {} |\n", t.spec.name,
                     t.floor.rows, t.rows, t.floor.median, t.floor.p90, t.spec.target_p90,
                     t.floor.beyond, t.rows / 10);
}

std::string rank_row(const ExamTable& t) {
  if (t.groups.empty()) return "";
  std::vector<double> rho, regret;
  size_t first = 0, third = 0;
  for (const RankGroup& g : t.groups) {
    rho.push_back(g.spearman);
    regret.push_back(g.regret);
    first += g.place == 1 ? 1 : 0;
    third += g.place <= 3 ? 1 : 0;
  }
  return fmt::format("| {} | {} | {:.2f} | {} / {} | {:.1f} | {:.1f} | {:.0f} % |\n", t.spec.name,
                     t.groups.size(), median(rho), first, third, 100 * median(regret),
                     100 * *std::max_element(regret.begin(), regret.end()),
                     100 * t.decisions_within(0.02));
}

std::string memory_rows(const ExamTable& t) {
  std::string out;
  for (const HeldOut& h : t.memory) {
    const bool target = t.spec.memory_median > 0;
    out += fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} |\n", t.spec.name, h.all.rows, h.key, pair_text(h.all),
        pair_text(h.clean),
        target ? fmt::format("{:g} / {:g}", t.spec.memory_median, t.spec.memory_p90) : "none",
        target ? verdict(h, t.spec.memory_median, t.spec.memory_p90) : "-");
  }
  return out;
}

std::string whole_rows(const Exam& exam) {
  std::string out;
  for (const WholeTable& w : whole_tables(exam)) {
    out += fmt::format("| {} | {} | {} | {} | {:g} / {:g} | {} |\n", w.names, w.all.rows,
                       pair_text(w.all), pair_text(w.clean), w.target_median, w.target_p90,
                       verdict(w, w.target_median, w.target_p90));
  }
  return out;
}

std::string constants_rows(const ExamTable& t) {
  std::string out;
  for (size_t i = 0; i < t.fitted.free.size(); ++i) {
    const Constant id = t.fitted.free[i];
    out += fmt::format("| {} | {} | {:.4g} | {:.0f} % | {} |\n", t.spec.name, info(id).key,
                       t.fitted.constants[id], 100 * t.fit.relative_sigma[i], info(id).unit);
  }
  return out;
}

std::string odd_rows(const ExamTable& t) {
  std::string out;
  for (const RowResult& r : t.results) {
    if (r.anomaly.empty()) continue;
    out += fmt::format("| {} | {} | {:.5g} | {:+.1f} % | {} |\n", r.id, r.layout, r.measured,
                       100 * (r.fitted / r.measured - 1), r.anomaly);
  }
  return out;
}

std::string worst_rows(const ExamTable& t) {
  std::string out;
  for (const RowResult& r : t.results) {
    const double error = r.fitted / r.measured - 1;
    if (!r.anomaly.empty() || std::abs(error) < 0.05) continue;
    out +=
        fmt::format("| {} | {} | {:.5g} | {:+.1f} % |\n", r.id, r.layout, r.measured, 100 * error);
  }
  return out;
}

template <typename Function>
std::string each(const Exam& exam, Function f) {
  std::string out;
  for (const ExamTable& t : exam.tables) out += f(t);
  return out;
}

}  // namespace

std::string exam_markdown(const Exam& exam) {
  std::string out =
      "# The planner's exam\n\n"
      "Written by `stretto plan exam --write docs/planner_exam.md`. The published tables of\n"
      "`reference/` are predicted with whole groups held out: every row below was predicted by\n"
      "constants that have seen no row of its group. Errors are relative, median / p90 in "
      "percent.\n"
      "\"Without odd rows\" leaves out the rows listed at the end as unexplained; they stay in "
      "the\n"
      "fits and in the first figure. \"In interval\": the share of all these rows that the "
      "interval of\n`stretto plan` would have held. Why a line is missed, as far as known:\n"
      "[planner.md](planner.md), Known limits.\n\n"
      "## Whole tables\n\n"
      "Every held-out prediction of a publication that shares a target, whatever was held out; the "
      "sections\nbelow have each kind of group apart.\n\n"
      "| table | predictions | error % | without odd rows | target | |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  out += whole_rows(exam);
  out +=
      "\n## Seconds per iteration\n\n"
      "| table | rows | held out | error % | without odd rows | in interval | target | |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  out += each(exam, seconds_rows);
  const std::string unfair = each(exam, unfair_lines);
  if (!unfair.empty()) {
    out += "\nA group is held out only where at least 40 % of the rows remain. Beyond that:\n\n" +
           unfair;
  }
  out += "\nFitted to all rows (what the stored constants reach where they were found): ";
  for (size_t i = 0; i < exam.tables.size(); ++i) {
    const ExamTable& t = exam.tables[i];
    out += fmt::format("{}{} {}", i == 0 ? "" : "; ", t.spec.name, pair_text(t.in_sample));
  }
  out +=
      ".\n\n### What the rows allow\n\n"
      "Twins are rows alike in all but the number of micro-batches. Any steady state puts them on "
      "a straight\n"
      "line, and what an iteration costs once is the same for every sequence length and "
      "micro-batch "
      "on the same\n"
      "devices. Here all twins have the best such lines of their own, drawn through these very "
      "rows, so that\n"
      "what is left is the tables' own scatter. \"Beyond\": rows outside the p90 target on the "
      "lines that leave\n"
      "fewest outside. The target leaves room for a tenth of all rows: what \"beyond\" takes of it "
      "no model has.\n\n"
      "| table | rows with twins | lines' error % | p90 target | beyond | room for |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  out += each(exam, floor_row);
  out +=
      "\n## Decisions\n\nRows that were compared with each other, predicted by a fit without "
      "any of them. Regret: speed lost\nby taking the predicted best.\n\n"
      "| table | groups | Spearman (median) | best is first / top 3 | regret % median | worst | "
      "within 2 % |\n| --- | --- | --- | --- | --- | --- | --- |\n";
  out += each(exam, rank_row);
  out +=
      "\n## Memory\n\n| table | rows | held out | error % | without odd rows | target | |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n";
  out += each(exam, memory_rows);
  out += "\nOut-of-memory calls:\n\n";
  for (const ExamTable& t : exam.tables) {
    if (t.oom_rows == 0) {
      out += fmt::format("* {}: {} of {} rows that ran are called infeasible.\n", t.spec.name,
                         t.ran_called_oom, t.ran);
      continue;
    }
    out += fmt::format(
        "* {}: of {} rows that ran out of memory {} are called, {} more are "
        "called tight; {} of {} that ran are called infeasible.{}\n",
        t.spec.name, t.oom_rows, t.oom_called, t.oom_tight, t.ran_called_oom, t.ran,
        t.oom_missed.empty() ? "" : fmt::format(" Not called: {}.", fmt::join(t.oom_missed, ", ")));
  }
  out +=
      "\n## Constants found\n\nThe percentage is how well the rows and the prior together "
      "identify the value.\n\n| table | constant | value | +- | unit |\n"
      "| --- | --- | --- | --- | --- |\n";
  out += each(exam, constants_rows);
  out +=
      "\n## Odd rows\n\nSlow (or fast) for no recorded cause, most of them beside normal "
      "twins.\n\n| row | layout | seconds | fitted | why it is listed |\n"
      "| --- | --- | --- | --- | --- |\n";
  out += each(exam, odd_rows);
  out +=
      "\nOther rows that the fit misses by more than 5 %:\n\n| row | layout | seconds | fitted "
      "|\n| --- | --- | --- | --- |\n";
  out += each(exam, worst_rows);
  return out;
}

std::string exam_text(const Exam& exam, bool with_rows) {
  std::string out = fmt::format("{:<26}{:>6}  {:<8}{:>16}{:>18}{:>12}\n", "table", "rows",
                                "held out", "error % m/p90", "without odd rows", "target");
  for (const ExamTable& t : exam.tables) {
    for (const HeldOut& h : t.seconds) {
      out += fmt::format(
          "{:<26}{:>6}  {:<8}{:>16}{:>18}{:>12}  {}\n", t.spec.name, h.all.rows, h.key,
          pair_text(h.all), pair_text(h.clean), targets_line(t),
          h.all.rows == 0 ? "not possible" : verdict(h, t.spec.target_median, t.spec.target_p90));
      if (h.unfair_errors.rows > 0) {
        out += fmt::format("{:<26}{:>6}  {:<8}{:>16}  ({} = {} is most of the table)\n", "",
                           h.unfair_errors.rows, "", pair_text(h.unfair_errors), h.key,
                           h.unfair.front());
      }
    }
    for (const HeldOut& h : t.memory) {
      const bool target = t.spec.memory_median > 0;
      out += fmt::format(
          "{:<26}{:>6}  {:<8}{:>16}{:>18}{:>12}  {}\n", "  memory", h.all.rows, h.key,
          pair_text(h.all), pair_text(h.clean),
          target ? fmt::format("{:g} / {:g}", t.spec.memory_median, t.spec.memory_p90) : "",
          target ? verdict(h, t.spec.memory_median, t.spec.memory_p90) : "");
    }
    if (t.oom_rows > 0) {
      out += fmt::format(
          "  out of memory: {} of {} called, {} more tight; {} of {} that ran called "
          "infeasible\n",
          t.oom_called, t.oom_rows, t.oom_tight, t.ran_called_oom, t.ran);
    }
    if (!t.groups.empty()) {
      std::vector<double> rho;
      double worst = 0;
      for (const RankGroup& g : t.groups) {
        rho.push_back(g.spearman);
        worst = std::max(worst, g.regret);
      }
      out += fmt::format(
          "  decisions: {} groups, Spearman {:.2f}, predicted best within 2 % in {:.0f} %, worst "
          "{:.1f} %\n",
          t.groups.size(), median(rho), 100 * t.decisions_within(0.02), 100 * worst);
    }
    if (!with_rows) continue;
    for (const RowResult& r : t.results) {
      out += fmt::format("    {:<16}{:<34}{:>10.5g}{:>+8.1f} |", r.id, r.layout, r.measured,
                         100 * (r.fitted / r.measured - 1));
      for (double h : r.held) out += fmt::format("{:>+7.1f}", 100 * h);
      if (r.memory_measured > 0) {
        out += fmt::format(" | {:>6.1f} GiB{:>+6.1f}", r.memory_measured / 0x1p30,
                           100 * (r.memory_fitted / r.memory_measured - 1));
      }
      out += r.anomaly.empty() ? "\n" : "  odd\n";
    }
    for (const RankGroup& g : t.groups) {
      out += fmt::format("    group {:<16} rows {:>3} rho {:>5.2f} place {} regret {:.1f} %\n",
                         g.name, g.rows, g.spearman, g.place, 100 * g.regret);
    }
  }
  out += fmt::format("{:.1f} s\n", exam.wall_seconds);
  return out;
}

}  // namespace stretto::plan
