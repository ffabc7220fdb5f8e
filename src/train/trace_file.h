// The timeline of traced steps as Chrome-trace JSON, to be opened with Perfetto (ui.perfetto.dev):
// one process per rank, one lane per kind of work, and arrows for what pipeline ranks send each
// other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/fs.h"
#include "base/trace.h"
#include "parallel/mesh.h"
#include "train/trainer.h"

namespace stretto {

struct TraceRank {
  int rank = 0;
  Coordinates at;
  double zero = 0;    // clock_seconds() of rank 0 that is shown as time 0
  double offset = 0;  // clock_offset()
};
// A lane's thread number. Perfetto takes thread 0, and a thread with the number of its process, for
// the main thread; two lanes with such numbers would share one track.
int trace_thread(int rank, TraceLane lane);

// Events of one rank as JSON objects, each followed by a comma. A pure function.
std::string trace_events(const TraceBuffer& buffer, const TraceRank& rank);

// The fraction of the steps' time in which the rank waited for another pipeline stage.
double bubble_share(const TraceBuffer& buffer);

// Records the steps that `trace` asks for, and writes them when the last of them has ended.
// Recording starts with the second step of this call, because the first is cold; fewer steps are
// recorded where fewer remain. One object per rank; every call but the constructor is collective.
class StepTracer {
 public:
  // `keep_tasks`: record the pipeline tasks of the last step for tasks(), even if `trace` does not.
  StepTracer(const Config& config, int64_t steps_done, std::string path, bool keep_tasks, Fs& fs);

  // The buffer for this step; nullptr if it is not traced.
  TraceBuffer* buffer(const Trainer& trainer, int64_t step);
  void after_step(Trainer& trainer, int64_t step, bool speaks);
  std::vector<TraceEvent> tasks() const;  // of the last step; empty unless kept

 private:
  void write(Trainer& trainer, bool speaks);

  std::optional<TraceBuffer> buffer_, tasks_;
  int64_t first_ = 0, last_ = -1;
  std::string path_;
  Fs& fs_;
};

}  // namespace stretto
