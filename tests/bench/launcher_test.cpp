#include "bench/launcher.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace stretto {
namespace {

using Words = std::vector<std::string>;

TEST(Launcher, WordsFitTheMpiAtHand) {
  MpiInfo mpi;
  mpi.in_build = true;
  mpi.launcher = "/usr/bin/mpirun";
  mpi.version = "Open MPI v4.1.4";
  EXPECT_EQ(words_for_ranks(launch_words(SweepLauncher::mpirun, mpi, true), 4),
            (Words{"/usr/bin/mpirun", "--oversubscribe", "--bind-to", "none", "--allow-run-as-root",
                   "-n", "4"}));
  mpi.version = "MPICH Version: 4.0.2";
  EXPECT_EQ(words_for_ranks(launch_words(SweepLauncher::mpirun, mpi, true), 2),
            (Words{"/usr/bin/mpirun", "-n", "2"}));
  EXPECT_TRUE(words_for_ranks(launch_words(SweepLauncher::mpirun, mpi, true), 1).empty());
  EXPECT_TRUE(launch_words(SweepLauncher::threads, mpi, true).empty());
  mpi.launcher.clear();
  EXPECT_ERROR(launch_words(SweepLauncher::mpirun, mpi, true), ExitCode::os_error, "mpirun");
  EXPECT_ERROR(launcher_from_name("pbs"), ExitCode::usage, "pbs");
}

SweepArray array() {
  SweepArray a;
  a.name = "stretto-sweep";
  a.ranks = 2;
  a.threads = 1;
  a.seconds = 90;
  a.directory = "runs/a sweep";
  a.command = {"/opt/stretto", "sweep", "spec's.yaml", "--run"};
  a.ids = {"dp2-01234567", "tp2-89abcdef"};
  return a;
}

TEST(Launcher, AnArrayRunsOnePointPerJob) {
  const std::string file = array_file(array());
  EXPECT_NE(file.find("#SBATCH --array=0-1\n"), std::string::npos);
  EXPECT_NE(file.find("#SBATCH --ntasks=2\n"), std::string::npos);
  EXPECT_NE(file.find("#SBATCH --time=4\n"), std::string::npos);  // minutes, with room to end
  EXPECT_NE(file.find("output='runs/a sweep/slurm-%A_%a.log'"), std::string::npos);
  EXPECT_NE(file.find("'spec'\\''s.yaml' --run --launcher srun --only"), std::string::npos) << file;
}

TEST(Launcher, NothingOfStrangersReachesTheShellUnquoted) {
  const auto refused = [](auto change) {
    SweepArray a = array();
    change(a);
    EXPECT_ERROR(array_file(a), ExitCode::usage, "");
  };
  refused([](SweepArray& a) { a.name = "x\n#SBATCH --wrap=reboot"; });
  refused([](SweepArray& a) { a.partition = "$(reboot)"; });
  refused([](SweepArray& a) { a.ids[0] = "'; reboot"; });
  refused([](SweepArray& a) { a.command[2] = "a\nreboot"; });
}

}  // namespace
}  // namespace stretto
