// The contract over MPI. Run by mpirun with several ranks (see CMakeLists.txt); each rank runs all
// cases, and `hang`, `throw`, `exit` or `kill` as argument makes rank 1 fail in that way.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "comm/contract.h"
#include "comm/mpi.h"
#include "comm/watchdog.h"

namespace {

stretto::Comm* g_world = nullptr;  // MPI starts once per process; gtest's cases share it

class MpiContract : public testing::TestWithParam<stretto::contract::Named> {};

TEST_P(MpiContract, Holds) {
  g_world->barrier();
  GetParam().run(*g_world);
}

INSTANTIATE_TEST_SUITE_P(Cases, MpiContract, testing::ValuesIn(stretto::contract::cases()),
                         [](const auto& each) { return each.param.name; });

void fail(stretto::Comm& world, std::string_view how) {
  stretto::Watchdog watchdog(world, {.timeout = 3});
  watchdog.enter(stretto::Section::step, 3);
  stretto::contract::Array a(stretto::DType::f32, 50000);
  world.all_reduce(a.tensor());
  if (world.rank() == 1) {
    if (how == "hang") raise(SIGSTOP);
    if (how == "sleep") std::this_thread::sleep_for(std::chrono::seconds(60));
    if (how == "throw") throw stretto::Error(stretto::ExitCode::io_error, "disk full", "free some");
    if (how == "exit") _exit(3);
    if (how == "kill") raise(SIGKILL);
  }
  world.all_reduce(a.tensor());
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int code = 0;
  stretto::run_mpi_ranks([&](stretto::Comm& world) {
    if (argc > 1) return fail(world, argv[1]);
    g_world = &world;
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    if (world.rank() != 0) delete listeners.Release(listeners.default_result_printer());
    code = RUN_ALL_TESTS();
    float failed = static_cast<float>(code);
    world.all_reduce({&failed, stretto::DType::f32, {1}}, stretto::ReduceOp::max);
    code = failed > 0 ? 1 : 0;
  });
  return code;
}
