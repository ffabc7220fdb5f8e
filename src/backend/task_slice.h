// A task in the timeline of a traced step: a slice over the time in which this thread works on it,
// and, if a device does the work, one over the time in which the device does.
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
    if (trace_ == nullptr) return;
    slice_.span.lane = TraceLane::compute;
    slice_.span.start = clock_seconds();
    on_device_ = trace_->operators() && backend_.begin_slice(slice_);
  }
  ~TaskSlice() {
    if (trace_ == nullptr) return;
    if (on_device_) {
      backend_.end_slice();
      slice_.in = slice_.out = 0;
    }
    slice_.span.end = clock_seconds();
    trace_->add(slice_);
  }
  TaskSlice(const TaskSlice&) = delete;
  TaskSlice& operator=(const TaskSlice&) = delete;

 private:
  Backend& backend_;
  TraceBuffer* trace_;
  TraceSlice slice_;
  bool on_device_ = false;
};

}  // namespace stretto
