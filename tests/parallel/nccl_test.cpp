// NCCL as far as one GPU can show it: the contract in a world of one, whole training steps in it,
// and what ranks are told that share a GPU. Several ranks run over a stand-in (with
// support/fake_nccl.cpp in the library path and STRETTO_TEST_FAKE_NCCL=1). Without a GPU: what is
// said where the library is missing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>

#include "backend/cuda/cuda_options.h"
#include "comm/contract.h"
#include "comm/threads.h"
#include "parallel/nccl_comm.h"
#include "parallel/nccl_library.h"
#include "support/host_face.h"
#include "train/training.h"

namespace stretto {
namespace {

TEST(NcclLibrary, SaysWhyItCannotBeUsed) {
  nccl::Library library;
  EXPECT_NE(nccl::load(library, "libnccl-that-is-not-there.so").find("libnccl-that-is-not-there"),
            std::string::npos);
  EXPECT_NE(nccl::load(library, "libm.so.6").find("ncclGetUniqueId"), std::string::npos);
}

class NcclOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    if (!nccl::why_missing().empty()) GTEST_SKIP() << nccl::why_missing();
  }
};

class NcclContract : public NcclOnGpu, public testing::WithParamInterface<contract::Named> {};

TEST_P(NcclContract, HoldsForOneRank) {
  const auto backend = make_cuda_backend(0);
  const auto host = make_self_comm();
  GetParam().run(*test::make_host_face(make_nccl_comm(*host, *backend, true), *backend));
}

// The flight recorder shows each call twice, as ours and as the inner one's: left out here.
std::vector<contract::Named> cases() {
  std::vector<contract::Named> all = contract::cases();
  std::erase_if(all, [](const contract::Named& each) {
    return std::string_view(each.name) == "RecorderKnowsTheLastCalls";
  });
  return all;
}
INSTANTIATE_TEST_SUITE_P(Cases, NcclContract, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

class ManyRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    if (std::getenv("STRETTO_TEST_FAKE_NCCL") == nullptr)
      GTEST_SKIP() << "the stand-in is not here";
  }
};

TEST_F(ManyRanks, ContractHolds) {
  for (int n = 2; n <= 4; ++n) {
    run_thread_ranks(n, [](Comm& host) {
      const auto backend = make_cuda_backend(0);
      const auto comm = test::make_host_face(make_nccl_comm(host, *backend, false), *backend);
      for (const contract::Named& each : cases()) {
        SCOPED_TRACE(each.name);
        each.run(*comm);
      }
    });
  }
}

// Both directions of every link at once, as in a pipeline.
TEST_F(ManyRanks, RingsCarryBothDirections) {
  constexpr int kMessages = 5;
  for (int n = 2; n <= 4; ++n) {
    run_thread_ranks(n, [](Comm& host) {
      const auto backend = make_cuda_backend(0);
      const auto comm = test::make_host_face(make_nccl_comm(host, *backend, true), *backend);
      const int up = (comm->rank() + 1) % comm->size();
      const int down = (comm->rank() + comm->size() - 1) % comm->size();
      const auto value = [](int from, int tag) { return 100.0 * from + tag; };
      std::vector<contract::Array> out(2 * kMessages, contract::Array(DType::f32, 1000));
      std::vector<RequestPtr> sent;
      for (int tag = 0; tag < 2 * kMessages; ++tag) {
        contract::Array& array = out[static_cast<size_t>(tag)];
        for (int64_t i = 0; i < array.count(); ++i) array.set(i, value(comm->rank(), tag));
        sent.push_back(comm->start_send(array.tensor(), tag % 2 == 0 ? up : down, tag));
      }
      for (int tag = 0; tag < 2 * kMessages; ++tag) {
        const int from = tag % 2 == 0 ? down : up;
        contract::Array in(DType::f32, 1000);
        comm->recv(in.tensor(), from, tag);
        EXPECT_EQ(in.get(0), value(from, tag));
        EXPECT_EQ(in.get(999), value(from, tag));
      }
      for (const RequestPtr& request : sent) request->wait();
    });
  }
}

// Sums that begin with what `out` holds are taken in rank order: the bits of the host transport.
TEST_F(ManyRanks, AccumulatedSumsHaveTheBitsOfTheHost) {
  for (const DType type : {DType::f32, DType::bf16}) {
    run_thread_ranks(3, [type](Comm& host) {
      const auto backend = make_cuda_backend(0);
      const auto comm = test::make_host_face(make_nccl_comm(host, *backend, false), *backend);
      contract::Array in(type, 3000), there(type, 1000), here(type, 1000);
      for (int64_t i = 0; i < in.count(); ++i) {
        in.set(i, 1e3 / static_cast<double>(1 + (i * 37 + host.rank() * 11) % 101));
      }
      for (int64_t i = 0; i < there.count(); ++i) {
        there.set(i, 1.0 / static_cast<double>(i + 1));
        here.set(i, 1.0 / static_cast<double>(i + 1));
      }
      comm->start_reduce_scatter(there.tensor(), in.tensor(), Accumulate::yes)->wait();
      host.start_reduce_scatter(here.tensor(), in.tensor(), Accumulate::yes)->wait();
      for (int64_t i = 0; i < here.count(); ++i) EXPECT_EQ(there.get(i), here.get(i)) << i;
    });
  }
}

// The host goes on at once: what it spends in a call is not counted. How long the GPU waits is,
// where operators are timed, and the timeline shows it.
TEST_F(ManyRanks, WaitsAreThoseOfTheGpu) {
  run_thread_ranks(2, [](Comm& host) {
    const auto backend = make_cuda_backend(0);
    const auto comm = make_nccl_comm(host, *backend, false);
    const Buffer buffer = backend->allocate(4096, "sum");
    const Tensor sum(buffer.data(), DType::f32, {1024});
    TraceBuffer trace(16, TraceDetail::operators);
    const TraceScope scope(&trace);
    comm->all_reduce(sum);
    backend->synchronize();
    EXPECT_EQ(comm->counters().seconds, 0);
    EXPECT_TRUE(trace.events().empty());
    backend->time_operators(true);
    for (int i = 0; i < 3; ++i) comm->start_all_reduce(sum)->wait();
    backend->synchronize();
    ASSERT_EQ(trace.events().size(), 3u);
    double shown = 0;
    for (const TraceEvent& e : trace.events()) {
      EXPECT_EQ(e.lane, TraceLane::job);  // the group's name is that of all ranks
      shown += e.end - e.start;
    }
    EXPECT_GT(comm->counters().seconds, 0);
    EXPECT_NEAR(comm->counters().seconds, shown, 1e-5);
  });
}

TEST_F(NcclOnGpu, TrainsAsWithoutIt) {
  for (const int zero : {0, 1, 2, 3}) {
    Config config = tiny_config();
    config.device = Device::cuda;
    config.parallel.zero = zero;
    config.parallel.gpu_transport = GpuTransport::host;
    const std::vector<double> host = losses(config);
    config.parallel.gpu_transport = GpuTransport::nccl;
    EXPECT_EQ(losses(config), host) << "ZeRO-" << zero;
  }
}

TEST_F(NcclOnGpu, RanksThatShareAGpuAreTold) {
  if (cuda_device_count() > 1) GTEST_SKIP() << "every rank would have a GPU";
  std::mutex mutex;
  int refused = 0;
  run_thread_ranks(2, [&](Comm& world) {
    const auto backend = make_cuda_backend(0);
    EXPECT_FALSE(wants_nccl(world, *backend, NcclUse::automatic));
    try {
      wants_nccl(world, *backend, NcclUse::required);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      ++refused;
      EXPECT_NE(std::string(error.what()).find("ranks 0 and 1 share one"), std::string::npos);
      EXPECT_NE(error.hint().find("parallel.gpu_transport=auto"), std::string::npos);
    }
  });
  EXPECT_EQ(refused, 2);
}

}  // namespace
}  // namespace stretto
