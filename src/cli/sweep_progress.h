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
  double expected(const PlannedPoint& point) const;  // seconds of the whole point; 0: unknown
  double left(const PlannedPoint* current, double seconds) const;

  const std::vector<PlannedPoint>& points_;
  double steps_, seconds_;  // of a point, at least
  bool live_;
  bool shown_ = false;
  size_t done_ = 0, failed_ = 0, width_ = 5;
  // Seconds that finished points took, and that they were expected to take.
  double took_ = 0, foreseen_ = 0;
  size_t ran_ = 0;
  double start_ = clock_seconds(), last_ = 0;
};

}  // namespace stretto::cli
