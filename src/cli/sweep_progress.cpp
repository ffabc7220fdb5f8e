#include "cli/sweep_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/terminal.h"
#include "base/units.h"
#include "base/wrap.h"
#include "bench/figures.h"
#include "bench/safe_text.h"

namespace stretto::cli {
namespace {

constexpr double kStartSeconds = 0.5;  // for a process to start, read and allocate

constexpr size_t kStatusWidth = 8;  // "rejected"
constexpr size_t kGap = 2;          // beside names and states

struct Cells {
  std::string tokens, step, half_width, predicted, error, memory;
};

std::string figure_text(const Cells& c, bool with_memory) {
  std::string text = fmt::format("{:>8} {:>8} {:>6} {:>9} {:>6}", c.tokens, c.step, c.half_width,
                                 c.predicted, c.error);
  return with_memory ? text + fmt::format(" {:>11}", c.memory) : text;
}

// The speed of a run that was measured; why there is none of another.
std::string speed_text(const RunRecord& record, bool with_memory) {
  const Figures f = derive(record);
  if (!record.counts() || f.step.median <= 0) return one_line(record.reason, 300);
  const double predicted = record.predicted.seconds;
  return figure_text({format_count(f.tokens_per_second), format_seconds(f.step.median),
                      fmt::format("{:.1f} %", 100 * f.step.half_width()),
                      predicted > 0 ? format_seconds(predicted) : "-",
                      predicted > 0 ? format_change(predicted / f.step.median - 1, 0) : "-",
                      format_bytes(static_cast<double>(record.memory.predicted_rank))},
                     with_memory);
}

}  // namespace

SweepProgress::SweepProgress(const std::vector<PlannedPoint>& points, const SweepOptions& how,
                             bool live)
    : points_(points),
      steps_(static_cast<double>(how.steps) + 4),
      seconds_(how.seconds),
      live_(live) {
  for (const PlannedPoint& p : points_) {
    name_width_ = std::max(name_width_, width_of(printable(p.point.label)));
  }
  count_width_ = count_text(points_.size()).size();
  const size_t states = count_width_ + kStatusWidth + 3 * kGap;
  const auto fits = [&](bool with_memory) {
    return states + name_width_ + figure_text({}, with_memory).size() <= output_width();
  };
  with_memory_ = fits(true);
  name_alone_ = !fits(false);
}

std::string SweepProgress::count_text(size_t done) const {
  return fmt::format("[{}/{}]", done, points_.size());
}

// A row of the table. Names so long that the figures do not fit beside them have lines of their
// own.
void SweepProgress::row(const std::string& count, const std::string& name, const char* status,
                        const std::string& rest, const std::string& note) const {
  const std::string gap(kGap, ' ');
  std::string line = fmt::format("{:>{}}", count, count_width_) + gap + name;
  if (name_alone_) {
    line += '\n' + std::string(count_width_, ' ');
  } else {
    line += std::string(name_width_ - width_of(name), ' ');
  }
  line += gap + fmt::format("{:<{}}", status, kStatusWidth) + gap;
  const size_t taken = width_of(line.substr(line.find('\n') + 1));
  line += wrapped(rest, output_width(), taken, taken);
  if (!note.empty()) {  // whole, beside the figures or below them
    const bool beside = width_of(line.substr(line.rfind('\n') + 1) + gap + note) <= output_width();
    line += beside ? gap : '\n' + std::string(taken, ' ');
    line += wrapped(note, output_width(), taken, taken);
  }
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void SweepProgress::header() {
  if (done_ > 0) return;
  row("", "point", "status",
      figure_text({"tokens/s", "sec/it", "+-", "predicted", "error", "memory/rank"}, with_memory_));
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
  const std::string bar =
      fmt::format("[{}{}] ", std::string(full, '#'), std::string(kBar - full, '.'));
  const std::string count = fmt::format("{}/{}{}", done_, points_.size(),
                                        failed_ > 0 ? fmt::format(", {} failed", failed_) : "");
  const std::string name = fmt::format(" | {} {:.0f} s", printable(point.point.label), seconds);
  const std::string time =
      fmt::format(" | {:.0f} s so far{}", now - start_,
                  rest > 0 ? fmt::format(", about {} left", format_seconds(std::ceil(rest))) : "");
  // The line is drawn over itself, so it must not go on in a second one.
  const auto fits = [](const std::string& line) { return width_of(line) < message_width(); };
  std::string line = bar + count + name + time;
  if (!fits(line)) line = count + name + time;
  if (!fits(line)) line = count + time;
  fmt::print(stderr, "\r\033[K{}", line);
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
  std::string notes = note;
  if (record.disturbed()) {
    notes += fmt::format("{}busy: {}", notes.empty() ? "" : "; ", describe(record.cores));
  }
  row(count_text(done_), printable(record.label), name_of(record.status),
      speed_text(record, with_memory_), notes);
}

void SweepProgress::elsewhere(const PlannedPoint& point) {
  clear();
  header();
  ++done_;
  row(count_text(done_), printable(point.point.label), "", "runs in another sweep");
}

}  // namespace stretto::cli
