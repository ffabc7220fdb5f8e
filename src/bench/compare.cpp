#include "bench/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/run_names.h"

namespace stretto {
namespace {

// Runs of one configuration whose ranks were started in the same way. Older records do not say how,
// and count as threads.
struct Side {
  std::string hash, launcher, name;
  std::vector<std::vector<double>> runs;  // step times of those that succeeded
  std::vector<const RunRecord*> of;       // the records of `runs`
  const RunRecord* first = nullptr;
  int64_t records = 0, failed = 0;
};

std::vector<Side> sides_of(const std::vector<RunRecord>& records) {
  std::vector<Side> sides;
  for (const RunRecord& r : records) {
    const std::string hash = config_hash(r.config);
    const std::string launcher = r.launcher.empty() ? "threads" : r.launcher;
    const auto same = [&](const Side& s) { return s.hash == hash && s.launcher == launcher; };
    auto side = std::find_if(sides.begin(), sides.end(), same);
    if (side == sides.end()) {
      side = sides.insert(sides.end(), Side{hash, launcher, "", {}, {}, &r});
    }
    ++side->records;
    side->failed += r.failed() ? 1 : 0;
    if (!r.counts()) continue;
    side->runs.push_back(r.timed_seconds());
    side->of.push_back(&r);
  }
  std::vector<const RunRecord*> firsts;
  for (const Side& side : sides) firsts.push_back(side.first);
  const std::vector<std::string> names = run_names(firsts);
  for (size_t i = 0; i < sides.size(); ++i) sides[i].name = names[i];
  return sides;
}

// The side with which `side`, one of `own`, is compared; nullptr: there is none.
const Side* counterpart(const Side& side, const std::vector<Side>& own,
                        const std::vector<Side>& other) {
  const auto of_this = [&](const Side& s) { return s.hash == side.hash; };
  for (const Side& s : other) {
    if (of_this(s) && s.launcher == side.launcher) return &s;
  }
  const bool single = std::count_if(own.begin(), own.end(), of_this) == 1 &&
                      std::count_if(other.begin(), other.end(), of_this) == 1;
  return single ? &*std::find_if(other.begin(), other.end(), of_this) : nullptr;
}

// For runs of A and B that took their steps in turns: seconds of B over seconds of A, step by step.
std::vector<std::vector<double>> ratios_of_neighbours(const Side& a, const Side& b) {
  std::vector<std::vector<double>> all;
  for (const RunRecord* x : a.of) {
    for (const RunRecord* y : b.of) {
      if (x->turns.empty() || x->turns != y->turns) continue;
      const auto from = static_cast<size_t>(std::max(x->warmup, y->warmup));
      std::vector<double> ratios;
      for (size_t i = from; i < std::min(x->steps.size(), y->steps.size()); ++i) {
        ratios.push_back(y->steps[i].seconds / x->steps[i].seconds);
      }
      if (!ratios.empty()) all.push_back(std::move(ratios));
    }
  }
  return all;
}

Verdict verdict_of(const Ratio& ratio, double tolerance) {
  constexpr double kWorthKnowing = 0.05;
  if (ratio.low > 1 + tolerance) return Verdict::slower;
  if (ratio.high < 1 - tolerance) return Verdict::faster;
  const bool wide = ratio.high > 1 + kWorthKnowing || ratio.low < 1 - kWorthKnowing;
  return wide ? Verdict::unclear : Verdict::same;
}

// Failed runs of sides that were timed all the same, so that a program that fails now and then does
// not pass for a good one.
std::string failures_of(const Side& a, const Side& b) {
  std::string text;
  for (const auto& [side, name] : {std::pair(&a, "A"), std::pair(&b, "B")}) {
    if (side->failed == 0) continue;
    text += text.empty() ? fmt::format("{} of {} runs of {}", side->failed, side->records, name)
                         : fmt::format(" and {} of {} of {}", side->failed, side->records, name);
  }
  return text.empty() ? "" : text + " did not end well";
}

// The verdict where a side has no timed run. A run that did not fail may have ended before enough
// steps were timed.
Verdict verdict_without_times(const Side& a, const Side& b) {
  if (a.runs.empty() && b.runs.empty()) return Verdict::same;
  const Side& untimed = a.runs.empty() ? a : b;
  if (untimed.failed == 0) return Verdict::unclear;
  return &untimed == &b ? Verdict::broken : Verdict::repaired;
}

size_t samples_in(const std::vector<std::vector<double>>& runs) {
  size_t all = 0;
  for (const auto& run : runs) all += run.size();
  return all;
}

Comparison compare_sides(const Side& a, const Side& b, double tolerance) {
  Comparison c;
  c.hash = a.hash;
  if (a.launcher == b.launcher) c.launcher = a.launcher;
  c.label = a.name;
  c.runs_a = a.records;
  c.runs_b = b.records;
  const auto note = [&](const std::string& text) {
    c.note += (c.note.empty() || text.empty() ? "" : "; ") + text;
  };
  const bool known = !a.first->launcher.empty() && !b.first->launcher.empty();
  if (known && a.launcher != b.launcher) note("ranks started differently");
  if (a.first->device != b.first->device) note("other machine");
  if (!a.runs.empty()) c.median_a = pooled_median(a.runs);
  if (!b.runs.empty()) c.median_b = pooled_median(b.runs);
  if (a.runs.empty() || b.runs.empty()) {
    c.verdict = verdict_without_times(a, b);
    if (a.runs.empty() && b.runs.empty()) note("neither was timed");
    if (c.verdict == Verdict::unclear) note("too few steps");
    return c;
  }
  const auto neighbours = ratios_of_neighbours(a, b);
  c.in_turns = !neighbours.empty();
  c.ratio = c.in_turns ? median_ratio(neighbours) : median_ratio(a.runs, b.runs);
  // A single number per side, or a single pair, has no interval.
  const bool has_interval =
      (c.in_turns ? samples_in(neighbours) : std::min(samples_in(a.runs), samples_in(b.runs))) > 1;
  c.verdict = has_interval ? verdict_of(c.ratio, tolerance) : Verdict::unclear;
  if (!has_interval) note("too few steps");
  // The interval comes from steps of one start; other starts may differ by more.
  const bool decided = c.verdict == Verdict::slower || c.verdict == Verdict::faster;
  if (decided && a.runs.size() == 1 && b.runs.size() == 1) note("one run each");
  note(failures_of(a, b));
  return c;
}

}  // namespace

const char* name_of(Verdict verdict) {
  constexpr const char* kNames[] = {"same", "slower", "faster", "unclear", "broken", "repaired"};
  return kNames[static_cast<int>(verdict)];
}

std::vector<Comparison> compare_records(const std::vector<RunRecord>& a,
                                        const std::vector<RunRecord>& b, double tolerance) {
  const std::vector<Side> ours = sides_of(a), theirs = sides_of(b);
  std::vector<Comparison> out;
  for (const Side& side : ours) {
    const Side* other = counterpart(side, ours, theirs);
    if (other != nullptr) out.push_back(compare_sides(side, *other, tolerance));
  }
  return out;
}

std::vector<Lonely> not_compared(const std::vector<RunRecord>& side,
                                 const std::vector<RunRecord>& other) {
  const std::vector<Side> ours = sides_of(side), theirs = sides_of(other);
  std::vector<Lonely> lonely;
  for (const Side& s : ours) {
    if (counterpart(s, ours, theirs) == nullptr) lonely.push_back({s.first, s.name});
  }
  return lonely;
}

}  // namespace stretto
