#include "backend/cuda/device_timer.h"

#include "backend/cuda/cuda_check.h"
#include "base/clock.h"

namespace stretto::cuda {
namespace {

double seconds_between(cudaEvent_t begin, cudaEvent_t end) {
  float ms = 0;
  CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
  return static_cast<double>(ms) * 1e-3;
}

}  // namespace

DeviceTimer::~DeviceTimer() {
  for (const Span& span : spans_) {
    cudaEventDestroy(span.begin);
    cudaEventDestroy(span.end);
  }
  for (cudaEvent_t event : idle_) cudaEventDestroy(event);
}

cudaEvent_t DeviceTimer::take() {
  cudaEvent_t event = nullptr;
  if (idle_.empty()) {
    CUDA_CHECK(cudaEventCreate(&event));
  } else {
    event = idle_.back();
    idle_.pop_back();
  }
  return event;
}

void DeviceTimer::begin(const TraceSlice& slice, double* seconds, cudaStream_t stream) {
  spans_.push_back({slice, seconds, take(), take()});
  open_.push_back(spans_.size() - 1);
  CUDA_CHECK(cudaEventRecord(spans_.back().begin, stream));
}

// Called while an exception may be on its way: a failure shows in the next checked call.
void DeviceTimer::end(cudaStream_t stream) noexcept {
  static_cast<void>(cudaEventRecord(spans_[open_.back()].end, stream));
  open_.pop_back();
}

// The host hears of an event some microseconds after it happened, so the quickest of a few tries
// is taken.
DeviceTimer::Now DeviceTimer::now(cudaStream_t stream) {
  constexpr int kTries = 5;
  Now best{take(), 0};
  double shortest = 1e300;
  for (int i = 0; i < kTries; ++i) {
    cudaEvent_t event = take();
    const double before = clock_seconds();
    CUDA_CHECK(cudaEventRecord(event, stream));
    CUDA_CHECK(cudaEventSynchronize(event));
    const double after = clock_seconds();
    if (after - before < shortest) {
      shortest = after - before;
      std::swap(best.event, event);
      best.time = (before + after) / 2;
    }
    idle_.push_back(event);
  }
  return best;
}

void DeviceTimer::resolve(cudaStream_t stream) {
  if (spans_.empty()) return;
  TraceBuffer* trace = current_trace();
  if (trace != nullptr && !trace->operators()) trace = nullptr;
  const Now now = trace != nullptr ? this->now(stream) : Now{};
  for (Span& span : spans_) {
    if (span.seconds != nullptr) *span.seconds += seconds_between(span.begin, span.end);
    if (trace != nullptr) {
      span.slice.span.start = now.time - seconds_between(span.begin, now.event);
      span.slice.span.end = now.time - seconds_between(span.end, now.event);
      trace->add(span.slice);
    }
  }
  if (trace != nullptr) idle_.push_back(now.event);
  for (const Span& span : spans_) {  // not above, where an error would leave them in both lists
    idle_.push_back(span.begin);
    idle_.push_back(span.end);
  }
  spans_.clear();
}

}  // namespace stretto::cuda
