// What a running sweep shows: a table that gets a row per finished point and, on a terminal, a
// moving bar below it.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/sweep.h"

namespace stretto::cli {

class SweepProgress {
 public:
  SweepProgress(const std::vector<PlannedPoint>& points, const SweepOptions& how, bool live);
  ~SweepProgress() { clear(); }
  SweepProgress(const SweepProgress&) = delete;
  SweepProgress& operator=(const SweepProgress&) = delete;

  void waiting(const PlannedPoint& point, double seconds);
  void finished(const PlannedPoint& point, const RunRecord& record, const char* note, bool ran);
  void elsewhere(const PlannedPoint& point);

 private:
  void clear();
  void header();
  void row(const std::string& count, const std::string& name, const char* status,
           const std::string& rest, const std::string& note = "") const;
  std::string count_text(size_t done) const;         // "[3/8]"
  double expected(const PlannedPoint& point) const;  // seconds of the whole point; 0: unknown
  double left(const PlannedPoint* current, double seconds) const;

  const std::vector<PlannedPoint>& points_;
  double steps_, seconds_;  // of a point, at least
  bool live_;
  bool shown_ = false;
  size_t done_ = 0, failed_ = 0;
  // Of the table: what fits beside the longest name.
  size_t count_width_ = 0, name_width_ = 5;
  bool with_memory_ = true, name_alone_ = false;
  // Seconds that finished points took, and that they were expected to take.
  double took_ = 0, foreseen_ = 0;
  size_t ran_ = 0;
  double start_ = clock_seconds(), last_ = 0;
};

}  // namespace stretto::cli
