// Runs the points of a sweep, each in its own process, in a directory that survives anything:
//
//   DIR/machine.json           what the machine delivers, measured once
//   DIR/points/ID/lock         held (flock) by whoever runs the point, and by the run itself
//   DIR/points/ID/record.json  appears, whole, when the point is finished
//   DIR/points/ID/log.txt      what the run said
//   DIR/points/ID/before.json  an older record, of fewer steps than were asked for later
//
// A point with a record of enough steps is finished and never run again. Two sweeps in one
// directory share the points. A killed sweep, or a killed machine, leaves only points without
// record: they run again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/sweep_spec.h"

namespace stretto {

enum class PointOutcome { ran, already_finished, running_elsewhere, stopped };

struct SweepOptions {
  std::string directory;
  std::string program;  // the stretto binary
  // Words before it for points of several ranks (launcher.h); empty: ranks are threads.
  std::vector<std::string> launch;
  std::string launcher = "threads";  // the same in a word, as records say it
  std::string machine;  // the text of machine.json; empty: what is there when a record is written
  int64_t steps = kTimedSteps;
  double seconds = kTimedSeconds;  // of timed steps, at least
  double timeout = kPointTimeout;  // seconds per point
  bool retry = false;              // run points again that ended without "ok"
  std::function<void(const PlannedPoint&, double seconds)> waiting;
  std::function<bool()> stop;
};

// The text of DIR/machine.json; empty where there is none.
std::string sweep_machine(const std::string& directory);
// The same, measured where there is none.
std::string prepare_sweep(const std::string& directory);

struct PointResult {
  PointOutcome outcome = PointOutcome::ran;
  RunRecord record;  // when ran or already finished
};

// The record of a point that is finished. One that ended well with fewer steps or seconds than are
// asked for now is set aside, with a warning, and does not count; nor does, with `retry`, one that
// did not end well: it is removed. A damaged one is set aside, too.
std::optional<RunRecord> finished_record(const PlannedPoint& point, const SweepOptions& options);

// Whether run_point would start a process for it now. Looks only: nothing is set aside.
bool would_run(const PlannedPoint& point, const SweepOptions& options);

// What finished_record() does to a record that does not count, unless the point runs elsewhere.
void clear_for_rerun(const PlannedPoint& point, const SweepOptions& options);

PointResult run_point(const PlannedPoint& point, const SweepOptions& options);

// Seconds that a point may take: its own, else the sweep's.
double time_limit(const PlannedPoint& point, const SweepOptions& options);

std::string record_path(const std::string& directory, const PlannedPoint& point);

// The record of a point that its own process did not write; status and reason are still to be set.
RunRecord record_for(const PlannedPoint& point, const SweepOptions& options);

}  // namespace stretto
