// Who counts and shows the time for which a rank waits in calls: Comm, or the transport itself, if
// it is a device that waits.
#include <gtest/gtest.h>

#include "base/trace.h"
#include "comm/comm.h"

namespace stretto {
namespace {

class Pair final : public Comm {  // one of two ranks; its peer is always there already
 public:
  explicit Pair(bool on_device)
      : Comm("dp", std::make_shared<RankMonitor>(StatusBoard::in_process(1), 0, 0)),
        on_device_(on_device) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  const char* transport() const override { return "pair"; }
  bool waits_on_device() const override { return on_device_; }
  void abort(int, const std::string& message) override { throw std::runtime_error(message); }

 protected:
  RequestPtr do_all_reduce(Tensor, ReduceOp) override { return nullptr; }
  RequestPtr do_reduce_scatter(Tensor, ConstTensor, Accumulate) override { return nullptr; }
  RequestPtr do_all_gather(Tensor, ConstTensor) override { return nullptr; }
  RequestPtr do_broadcast(Tensor, int) override { return nullptr; }
  RequestPtr do_send(ConstTensor, int, int) override { return nullptr; }
  RequestPtr do_recv(Tensor, int, int) override { return nullptr; }
  RequestPtr do_barrier() override { return nullptr; }
  std::unique_ptr<Comm> do_split(int, int, const std::string&) override { return nullptr; }

 private:
  bool on_device_;
};

TEST(Exposed, IsCountedHereUnlessADeviceWaits) {
  for (const bool on_device : {false, true}) {
    Pair pair(on_device);
    TraceBuffer trace(8, TraceDetail::operators);
    const TraceScope scope(&trace);
    float x = 1;
    pair.all_reduce(Tensor(&x, DType::f32, {1}));
    EXPECT_EQ(pair.counters().calls, 1u);
    EXPECT_EQ(pair.counters().seconds > 0, !on_device);
    ASSERT_EQ(trace.events().size(), on_device ? 0u : 1u);
    for (const TraceEvent& e : trace.events()) EXPECT_EQ(e.lane, TraceLane::dp);
  }
}

TEST(Exposed, IsNotShownWhereTasksAloneAre) {
  Pair pair(false);
  TraceBuffer trace(8, TraceDetail::tasks);
  const TraceScope scope(&trace);
  pair.barrier();
  EXPECT_TRUE(trace.events().empty());
  EXPECT_GT(pair.counters().seconds, 0);
}

// The host's few waits beside a device that waits on the axis' own lane.
TEST(Exposed, IsShownOnTheLaneAskedFor) {
  Pair pair(false);
  pair.show_waits_on(TraceLane::job);
  TraceBuffer trace(8, TraceDetail::operators);
  const TraceScope scope(&trace);
  pair.barrier();
  ASSERT_EQ(trace.events().size(), 1u);
  EXPECT_EQ(trace.events()[0].lane, TraceLane::job);
}

}  // namespace
}  // namespace stretto
