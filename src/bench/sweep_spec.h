// What a sweep tries: a grid over any keys, from a YAML file or from flags.
//
//   base: configs/runs/tiny.yaml     # a file, a model name, or a list of words
//   set: {train.lr: 1e-3}            # for every point
//   grid:                            # every combination
//     parallel.dp: [1, 2]
//     activation_checkpointing: [none, full]
//   points:                          # and these, each on its own
//     - {name: tp2, parallel.tp: 2, timeout: 1min}
//   steps: 12                        # timed, at least
//   seconds: 2                       # of timed steps, at least
//   timeout: 10min                   # of a point, unless it has its own
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/record.h"
#include "config/yaml.h"

namespace stretto {

constexpr size_t kMaxPoints = 10'000;

struct SweepPoint {
  std::string label;
  std::vector<std::string> words;  // as given to `stretto bench`
  std::vector<Place> places;       // where they are in a file; empty for flags
  double timeout = 0;              // seconds; 0: the sweep's
  std::string reason;              // why flags gave no configuration; else empty
  int64_t ranks = 0;               // requested by flags; 0: not requested
};

struct SweepSpec {
  std::vector<SweepPoint> points;
  int64_t steps = kTimedSteps;
  double seconds = kTimedSeconds;  // of timed steps, at least
  double timeout = kPointTimeout;  // seconds per point
};

// Throws Error (bad_config) with file, line and column. Pure.
SweepSpec parse_sweep(const YamlNode& root);

// The flags of `stretto sweep`, which users of llm-foundry's script know.
struct SweepFlags {
  std::vector<std::string> models;         // -m: registry names, also as 125m or 125m.yaml
  std::vector<std::string> precisions;     // -t
  std::vector<int64_t> sequences;          // -s LO HI: powers of two
  std::vector<int64_t> batches;            // -b LO HI: tokens of the global batch, powers of two
  std::vector<int64_t> ranks;              // -g
  std::vector<std::string> micro_batches;  // numbers or auto
  std::vector<int64_t> accumulations;
  std::vector<int64_t> dp, tp, pp, zero;
  std::vector<std::string> checkpointing;
  bool offload = false;
};

bool empty(const SweepFlags& flags);
// Throws Error (usage), also if flags contradict each other. Numbers that do not divide evenly (3
// ranks with tp 2) give a point with a reason.
std::vector<SweepPoint> points_of(const SweepFlags& flags);

// Throws what plan_points() would throw, but does not look at the machine.
void require_readable(const std::vector<SweepPoint>& points);

// A point with its configuration, or the reason why it cannot run.
struct PlannedPoint {
  SweepPoint point;
  // Directory of the point: its label, the hash of its configuration and, unless ranks are threads,
  // what starts them, because a configuration may be measured both ways.
  std::string id;
  Config config;
  RunMemory memory;                  // predicted; zero if it was rejected, except for memory
  RunPrediction predicted;           // of the step's time; zero if unknown
  std::string reason;                // empty: it can run
  RunStatus status = RunStatus::ok;  // else rejected or oom
};

// Reads and checks every point, in order. Of points that would run the same steps only the first
// stays. Words that cannot be read at all (an unknown key) throw: such a mistake in the spec is no
// result. `machine`: the text of `stretto doctor --json`; empty: no times are predicted.
// `launcher`: what starts the ranks of points with several ranks: threads, mpirun or srun.
std::vector<PlannedPoint> plan_points(const std::vector<SweepPoint>& points,
                                      const std::string& machine = "",
                                      const std::string& launcher = "threads");

}  // namespace stretto
