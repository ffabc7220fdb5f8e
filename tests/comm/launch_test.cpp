#include "comm/launch.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <map>

#include "base/cores.h"
#include "base/error.h"
#include "comm/threads_group.h"

namespace stretto {
namespace {

using Environment = std::map<std::string, std::string>;

LaunchInfo detect(const Environment& environment) {
  return detect_launch([&](const char* name) {
    const auto it = environment.find(name);
    return it == environment.end() ? std::string() : it->second;
  });
}

TEST(Launch, NoneIsOneRank) {
  const LaunchInfo info = detect({});
  EXPECT_EQ(info.launcher, Launcher::none);
  EXPECT_EQ(info.size, 1);
  EXPECT_FALSE(info.wants_mpi());
}

TEST(Launch, ReadsEachLauncher) {
  const LaunchInfo ompi = detect({{"OMPI_COMM_WORLD_RANK", "5"},
                                  {"OMPI_COMM_WORLD_SIZE", "8"},
                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                  {"SLURM_PROCID", "0"},
                                  {"SLURM_STEP_NUM_TASKS", "2"}});
  EXPECT_EQ(ompi.launcher, Launcher::open_mpi);
  EXPECT_EQ(ompi.rank, 5);
  EXPECT_EQ(ompi.local_rank, 1);
  EXPECT_EQ(ompi.local_size, 4);
  EXPECT_TRUE(ompi.wants_mpi());
  const LaunchInfo mpich = detect({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  EXPECT_EQ(mpich.launcher, Launcher::mpich);
  EXPECT_EQ(mpich.local_rank, 1);
  const LaunchInfo slurm = detect({{"SLURM_PROCID", "6"},
                                   {"SLURM_STEP_NUM_TASKS", "7"},
                                   {"SLURM_LOCALID", "2"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "4,3"}});
  EXPECT_EQ(slurm.launcher, Launcher::slurm);
  EXPECT_EQ(slurm.local_size, 4);
  // The first node's count is the only one that is known; a later node may hold more.
  const LaunchInfo later = detect({{"SLURM_PROCID", "6"},
                                   {"SLURM_STEP_NUM_TASKS", "8"},
                                   {"SLURM_LOCALID", "4"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "3,5"}});
  EXPECT_EQ(later.local_rank, 4);
  EXPECT_EQ(later.local_size, 5);
  EXPECT_EQ(detect({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).launcher, Launcher::torchrun);
}

// It sets MPICH's names as well, but not the rank within the machine. Taken for MPICH, each of 16
// ranks on two machines would get a sixteenth of its machine's memory, not an eighth.
TEST(Launch, SrunWithPmi2IsSlurm) {
  const std::map<std::string, std::string> step = {
      {"PMI_RANK", "9"},      {"PMI_SIZE", "16"},
      {"SLURM_PROCID", "9"},  {"SLURM_STEP_NUM_TASKS", "16"},
      {"SLURM_LOCALID", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "8(x2)"}};
  const LaunchInfo srun = detect(step);
  EXPECT_EQ(srun.launcher, Launcher::slurm);
  EXPECT_EQ(srun.local_rank, 1);
  EXPECT_EQ(srun.local_size, 8);
  // mpiexec of MPICH inside a job: Slurm's names are those of what started the ranks.
  auto hydra = step;
  hydra["MPI_LOCALRANKID"] = "3";
  hydra["MPI_LOCALNRANKS"] = "4";
  EXPECT_EQ(detect(hydra).launcher, Launcher::mpich);
  EXPECT_EQ(detect(hydra).local_rank, 3);
  auto other = step;
  other["SLURM_PROCID"] = "0";
  EXPECT_EQ(detect(other).launcher, Launcher::mpich);
}

TEST(Launch, BatchScriptIsNoJobStep) {
  EXPECT_EQ(detect({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).launcher, Launcher::none);
}

TEST(Launch, NonsenseIsRefused) {
  EXPECT_THROW(detect({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}), Error);
  EXPECT_THROW(detect({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}), Error);
  EXPECT_THROW(detect({{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}), Error);
}

// A rank that spins on a shared core takes that core from the rank it waits for.
TEST(ThreadRanks, WatchOnlyWithACoreForEach) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(allowed_cores()[0]), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_TRUE(threads::Job(1).spin);
  EXPECT_FALSE(threads::Job(2).spin);
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_EQ(threads::Job(2).spin, usable_cores() >= 2);
}

}  // namespace
}  // namespace stretto
