// When the device begins and ends what was queued: the seconds of operators, copies and waits, and
// their slices in the timeline of a traced step.
//   timer.begin(slice, &seconds, stream);
//   ... queue work on the stream ...
//   timer.end(stream);
//   ... all streams are idle ...
//   timer.resolve(stream);  // `seconds` has grown, and the thread's TraceBuffer has the slice
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "base/trace.h"

namespace stretto::cuda {

class DeviceTimer {
 public:
  DeviceTimer() = default;
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  // Times of the slice are filled in by resolve(). `seconds`, which may be null, must live so long.
  void begin(const TraceSlice& slice, double* seconds, cudaStream_t stream);
  void end(cudaStream_t stream) noexcept;  // of what began last and has not ended
  void resolve(cudaStream_t stream);       // everything that was begun must be complete

 private:
  struct Span {
    TraceSlice slice;
    double* seconds;
    cudaEvent_t begin, end;
  };
  struct Now {  // one moment, on the device and by clock_seconds()
    cudaEvent_t event;
    double time;
  };
  cudaEvent_t take();
  Now now(cudaStream_t stream);

  std::vector<Span> spans_;
  std::vector<size_t> open_;  // indices of spans, innermost last
  std::vector<cudaEvent_t> idle_;
};

}  // namespace stretto::cuda
