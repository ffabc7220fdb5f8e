// A task of a step, as profilers and timelines show it: in a traced step a slice over the time in
// which this thread works on it, and, if a device does the work, one over the time in which the
// device does.
//   {
//     const TaskSlice slice(backend, {.span = {.name = "optimizer"}});
//     ... operators ...
//   }
#pragma once

#include "backend/backend.h"
#include "base/clock.h"
#include "base/trace.h"

namespace stretto {

class TaskSlice {
 public:
  // Lane and times are filled in. The device's slice has the messages, if there is one.
  TaskSlice(Backend& backend, const TraceSlice& slice)
      : backend_(backend), trace_(current_trace()), slice_(slice) {
    slice_.span.lane = TraceLane::compute;
    slice_.span.start = trace_ != nullptr ? clock_seconds() : 0;
    if (backend_.begin_task(slice_)) slice_.in = slice_.out = 0;  // they join the device's slices
  }
  ~TaskSlice() {
    backend_.end_task();
    if (trace_ == nullptr) return;
    slice_.span.end = clock_seconds();
    trace_->add(slice_);
  }
  TaskSlice(const TaskSlice&) = delete;
  TaskSlice& operator=(const TaskSlice&) = delete;

 private:
  Backend& backend_;
  TraceBuffer* trace_;
  TraceSlice slice_;
};

}  // namespace stretto
