#include "cli/sweep_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/units.h"
#include "bench/figures.h"
#include "bench/safe_text.h"

namespace stretto::cli {
namespace {

constexpr double kStartSeconds = 0.5;  // for a process to start, read and allocate

std::string speed_cells(const RunRecord& record) {
  const Figures f = derive(record);
  if (!record.counts() || f.step.median <= 0) return one_line(record.reason, 90);
  const double predicted = record.predicted.seconds;
  const std::string foreseen = predicted > 0
                                   ? fmt::format("{:>9} {:>8}", format_seconds(predicted),
                                                 format_change(predicted / f.step.median - 1, 0))
                                   : fmt::format("{:>9} {:>8}", "-", "-");
  return fmt::format("{:>9} {:>9} {:>6.1f} % {} {:>16}", format_count(f.tokens_per_second),
                     format_seconds(f.step.median), 100 * f.step.half_width(), foreseen,
                     format_bytes(static_cast<double>(record.memory.predicted_rank)));
}

}  // namespace

SweepProgress::SweepProgress(const std::vector<PlannedPoint>& points, const SweepOptions& how,
                             bool live)
    : points_(points),
      steps_(static_cast<double>(how.steps) + 4),
      seconds_(how.seconds),
      live_(live) {
  for (const PlannedPoint& p : points_) width_ = std::max(width_, p.point.label.size());
}

void SweepProgress::header() {
  if (done_ > 0) return;
  fmt::print("{:>9}  {:<{}}  {:<8}  {:>9} {:>9} {:>8} {:>9} {:>8} {:>16}\n", "", "point", width_,
             "status", "tokens/s", "sec/it", "+-", "predicted", "error", "planned mem/rank");
}

void SweepProgress::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

double SweepProgress::expected(const PlannedPoint& point) const {
  if (!point.reason.empty()) return 0;
  if (point.predicted.seconds > 0) {
    return kStartSeconds + std::max(point.predicted.seconds * steps_, seconds_);
  }
  return ran_ > 0 ? took_ / static_cast<double>(ran_) : 0;
}

// Expected seconds of the remaining points, multiplied by the factor by which finished points took
// longer than expected.
double SweepProgress::left(const PlannedPoint* current, double seconds) const {
  const double factor = foreseen_ > 0 ? took_ / foreseen_ : 1;
  double sum = 0;
  bool after = false;
  for (const PlannedPoint& p : points_) {
    const double whole = expected(p) * factor;
    if (&p == current) {
      after = true;
      sum += std::max(0.0, whole - seconds);
    } else if (after) {
      sum += whole;
    }
  }
  return sum;
}

void SweepProgress::waiting(const PlannedPoint& point, double seconds) {
  const double now = clock_seconds();
  if (!live_ || now - last_ < 0.2) return;
  last_ = now;
  constexpr size_t kBar = 24;
  const size_t full = kBar * done_ / std::max<size_t>(1, points_.size());
  const double rest = left(&point, seconds);
  fmt::print(stderr, "\r\033[K[{}{}] {}/{}{} | {} {:.0f} s | {:.0f} s so far{}",
             std::string(full, '#'), std::string(kBar - full, '.'), done_, points_.size(),
             failed_ > 0 ? fmt::format(", {} failed", failed_) : "", printable(point.point.label),
             seconds, now - start_,
             rest > 0 ? fmt::format(", about {} left", format_seconds(std::ceil(rest))) : "");
  std::fflush(stderr);
  shown_ = true;
}

void SweepProgress::finished(const PlannedPoint& point, const RunRecord& record, const char* note,
                             bool ran) {
  clear();
  header();
  if (ran && point.reason.empty()) {
    foreseen_ += std::max(expected(point), 0.0);
    took_ += record.wall_seconds;
    ++ran_;
  }
  ++done_;
  if (record.failed()) ++failed_;
  const std::string busy =
      record.disturbed() ? fmt::format("  busy: {}", describe(record.cores)) : "";
  fmt::print("{:>9}  {:<{}}  {:<8}  {}{}{}\n", fmt::format("[{}/{}]", done_, points_.size()),
             printable(record.label), width_, name_of(record.status), speed_cells(record), note,
             busy);
  std::fflush(stdout);
}

void SweepProgress::elsewhere(const PlannedPoint& point) {
  clear();
  header();
  ++done_;
  fmt::print("{:>9}  {:<{}}  runs in another sweep\n",
             fmt::format("[{}/{}]", done_, points_.size()), printable(point.point.label), width_);
  std::fflush(stdout);
}

}  // namespace stretto::cli
