// NCCL as far as one GPU can show it: the contract in a world of one, whole training steps in it,
// and what ranks are told that share a GPU. Without a GPU: what is said where the library is
// missing.
#include <gtest/gtest.h>

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
