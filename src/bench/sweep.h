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
  // Words to put before it for points with several ranks (launcher.h); empty: ranks are threads.
  std::vector<std::string> launch;
  std::string launcher = "threads";  // how ranks are started, as records call it
  std::string machine;  // text of machine.json; empty: the file's content when a record is written
  int64_t steps = kTimedSteps;
  double seconds = kTimedSeconds;  // of timed steps, at least
  double timeout = kPointTimeout;  // seconds per point
  bool retry = false;              // repeat points that ended without "ok"
  std::function<void(const PlannedPoint&, double seconds)> waiting;
  std::function<bool()> stop;
};

// The text of DIR/machine.json; empty if there is none.
std::string sweep_machine(const std::string& directory);
// The same; measures the machine first if there is none.
std::string prepare_sweep(const std::string& directory);

struct PointResult {
  PointOutcome outcome = PointOutcome::ran;
  RunRecord record;  // when ran or already finished
};

// The record of a point that is finished. A record with fewer steps or seconds than are asked for
// now is set aside, with a warning, and does not count; a damaged one is set aside, too. With
// `retry`, a record of a run that did not end well is removed.
std::optional<RunRecord> finished_record(const PlannedPoint& point, const SweepOptions& options);

// Whether run_point would start a process for it now. Changes nothing.
bool would_run(const PlannedPoint& point, const SweepOptions& options);

// Does what finished_record() does to a record that does not count, unless the point is running
// elsewhere.
void clear_for_rerun(const PlannedPoint& point, const SweepOptions& options);

PointResult run_point(const PlannedPoint& point, const SweepOptions& options);

// Seconds that a point may take: its own, else the sweep's.
double time_limit(const PlannedPoint& point, const SweepOptions& options);

std::string record_path(const std::string& directory, const PlannedPoint& point);

// A record for a point whose own process wrote none; status and reason must still be set.
RunRecord record_for(const PlannedPoint& point, const SweepOptions& options);

}  // namespace stretto
