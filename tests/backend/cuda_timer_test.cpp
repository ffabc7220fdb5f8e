// Slices of the timeline at the times of the GPU: aligned with the host's clock, and in the order
// of what waits for what.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "backend/cuda/cuda_backend.h"
#include "backend/task_slice.h"
#include "base/clock.h"

namespace stretto {
namespace {

class GpuTimeline : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    gpu_ = std::make_unique<cuda::CudaBackend>(0, CudaOptions{});
    device_ = gpu_->allocate(kBytes, "device");
    host_ = gpu_->allocate_host(kBytes, "host");
    gpu_->time_operators(true);
  }
  Tensor bytes() const { return {device_.data(), DType::u8, {static_cast<int64_t>(kBytes)}}; }
  TraceEvent only(TraceLane lane) const {
    const auto is = [lane](const TraceEvent& e) { return e.lane == lane; };
    const auto& events = trace_.events();
    EXPECT_EQ(std::count_if(events.begin(), events.end(), is), 1) << name_of(lane);
    const auto found = std::find_if(events.begin(), events.end(), is);
    return found == events.end() ? TraceEvent{} : *found;
  }

  static constexpr size_t kBytes = size_t{64} << 20;
  static constexpr double kClock = 5e-5;  // seconds by which the GPU's clock may be told wrong
  TraceBuffer trace_{64, TraceDetail::operators};
  std::unique_ptr<cuda::CudaBackend> gpu_;
  Buffer device_, host_;
};

TEST_F(GpuTimeline, AWaitEndsWithWhatIsWaitedFor) {
  const TraceScope scope(&trace_);
  double waited = 0;
  gpu_->start_copy_to_host(Lane::copy, host_.data(), bytes());
  const Event copied = gpu_->record(Lane::copy);
  gpu_->begin_wait(TraceLane::dp, &waited);
  gpu_->wait(Lane::compute, copied);
  gpu_->end_wait();
  EXPECT_EQ(waited, 0) << "known when the GPU is idle";
  gpu_->synchronize();
  const TraceEvent copy = only(TraceLane::gpu_to_host), wait = only(TraceLane::dp);
  EXPECT_EQ(copy.bytes, kBytes);
  EXPECT_GT(copy.end, copy.start);
  EXPECT_GE(wait.end + 1e-6, copy.end);
  EXPECT_LT(wait.start, copy.end) << "the copy was under way";
  EXPECT_NEAR(waited, wait.end - wait.start, 1e-6);
  EXPECT_EQ(gpu_->profile().of(Op::copy).seconds, 0) << "it ran beside the operators";
}

TEST_F(GpuTimeline, TasksHoldTheirOperatorsAndMessages) {
  const TraceScope scope(&trace_);
  const double before = clock_seconds();
  {
    TraceSlice slice{.span = {.name = "forward", .number = 3}, .message = "activations"};
    slice.in = 7;
    const TaskSlice task(*gpu_, slice);
    gpu_->fill_zero(bytes());
  }
  gpu_->synchronize();
  const double after = clock_seconds();
  TraceEvent task, fill, arrow, host;
  for (const TraceEvent& e : trace_.events()) {
    const bool is_fill = std::string_view(e.name) == "fill";
    (e.kind == TraceEvent::Kind::flow_in ? arrow
     : e.lane == TraceLane::compute      ? host
     : is_fill                           ? fill
                                         : task) = e;
  }
  EXPECT_EQ(trace_.events().size(), 4u);
  EXPECT_EQ(task.lane, TraceLane::gpu);
  EXPECT_EQ(task.number, 3);
  EXPECT_LE(task.start, fill.start);
  EXPECT_GE(task.end, fill.end);
  EXPECT_GT(fill.end, fill.start);
  EXPECT_NEAR(gpu_->profile().of(Op::fill).seconds, fill.end - fill.start, 1e-6);
  EXPECT_EQ(arrow.lane, TraceLane::gpu);
  EXPECT_EQ(arrow.start, task.start);
  EXPECT_EQ(host.number, 3);
  EXPECT_GE(task.start, before - kClock);
  EXPECT_LE(task.end, after + kClock);
}

TEST_F(GpuTimeline, NothingIsShownWhereNobodyLooks) {
  gpu_->fill_zero(bytes());
  gpu_->synchronize();
  EXPECT_GT(gpu_->profile().of(Op::fill).seconds, 0);
  const TraceScope scope(&trace_);
  gpu_->time_operators(false);
  {
    const TaskSlice task(*gpu_, {.span = {.name = "optimizer"}});
    gpu_->fill_zero(bytes());
  }
  gpu_->synchronize();
  EXPECT_EQ(only(TraceLane::compute).number, -1);
  EXPECT_EQ(trace_.events().size(), 1u);
}

}  // namespace
}  // namespace stretto
