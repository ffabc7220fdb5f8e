#include "bench/launcher.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/shell_text.h"
#include "bench/safe_text.h"
#include "comm/launch.h"

namespace stretto {
namespace {

constexpr std::pair<const char*, SweepLauncher> kLaunchers[] = {{"threads", SweepLauncher::threads},
                                                                {"mpirun", SweepLauncher::mpirun},
                                                                {"srun", SweepLauncher::srun},
                                                                {"slurm", SweepLauncher::slurm}};

void require_name(const char* what, const std::string& name) {
  if (name.empty() || is_safe_name(name)) return;
  throw Error(ExitCode::usage, fmt::format("{} '{}' in a batch file", what, without_control(name)),
              "use letters, digits, '.', '_' and '-'");
}

std::string quoted_words(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    if (without_control(word) != word) {
      throw Error(ExitCode::usage, "a word of the command holds control characters",
                  "remove them: they cannot stand in a batch file");
    }
    out += (out.empty() ? "" : " ") + shell_word(word);
  }
  return out;
}

}  // namespace

SweepLauncher launcher_from_name(std::string_view name) {
  for (const auto& [word, launcher] : kLaunchers) {
    if (name == word) return launcher;
  }
  throw Error(ExitCode::usage, fmt::format("--launcher {}", without_control(name)),
              "use threads, mpirun, slurm, or srun inside an allocation");
}

std::vector<std::string> launch_words(SweepLauncher launcher, const MpiInfo& mpi, bool root) {
  if (launcher == SweepLauncher::srun) {
    return {"/usr/bin/env",         "srun",      "--ntasks={ranks}",
            "--kill-on-bad-exit=1", "--wait=60", "--mpi=pmix"};
  }
  if (launcher != SweepLauncher::mpirun) return {};
  if (mpi.launcher.empty() || !mpi.in_build) {
    throw Error(ExitCode::os_error,
                mpi.in_build ? "mpirun is not installed" : "this program was built without MPI",
                "apt-get install libopenmpi-dev openmpi-bin, then build again");
  }
  std::vector<std::string> words = {mpi.launcher};
  if (mpi.version.find("Open MPI") != std::string::npos) {
    // There may be more ranks than cores, and a rank's threads must not be bound to its first core.
    words.insert(words.end(), {"--oversubscribe", "--bind-to", "none"});
    if (root) words.emplace_back("--allow-run-as-root");
  }
  words.insert(words.end(), {"-n", "{ranks}"});
  return words;
}

std::vector<std::string> words_for_ranks(const std::vector<std::string>& words, int64_t ranks) {
  std::vector<std::string> out;
  if (ranks == 1) return out;
  for (std::string word : words) {
    const std::string mark = "{ranks}";
    const size_t at = word.find(mark);
    if (at != std::string::npos) word.replace(at, mark.size(), fmt::format("{}", ranks));
    out.push_back(std::move(word));
  }
  return out;
}

std::string launcher_here() {
  const LaunchInfo launch = detect_launch();
  if (!launch.wants_mpi() || launch.size == 1) return "threads";
  return launch.launcher == Launcher::slurm ? "srun" : "mpirun";
}

std::string command_line(const RunRecord& r) {
  if (r.command.empty()) return "";
  std::string text;
  if (r.launcher == "mpirun") text = fmt::format("mpirun -n {}", r.devices());
  if (r.launcher == "srun") text = fmt::format("srun --ntasks={}", r.devices());
  for (const std::string& word : r.command) text += (text.empty() ? "" : " ") + shell_word(word);
  return without_control(text);
}

std::string array_file(const SweepArray& a) {
  require_name("job name", a.name);
  require_name("partition", a.partition);
  require_name("account", a.account);
  std::string out = "#!/bin/bash\n";
  const auto add = [&](const std::string& line) { out += "#SBATCH --" + line + "\n"; };
  add("job-name=" + a.name);
  const std::string most = a.at_once > 0 ? fmt::format("%{}", a.at_once) : "";
  add(fmt::format("array=0-{}{}", std::ssize(a.ids) - 1, most));
  add(fmt::format("ntasks={}", a.ranks));
  if (a.threads > 0) add(fmt::format("cpus-per-task={}", a.threads));
  add(fmt::format("time={}", static_cast<int64_t>(std::ceil(a.seconds / 60)) + 2));
  if (!a.partition.empty()) add("partition=" + a.partition);
  if (!a.account.empty()) add("account=" + a.account);
  add("open-mode=append");
  add("output=" + shell_word(a.directory + "/slurm-%A_%a.log"));
  out += "points=(\n";
  for (const std::string& id : a.ids) {
    require_name("point", id);
    out += "  " + shell_word(id) + "\n";
  }
  out += ")\n";
  if (a.threads > 0) out += "export SRUN_CPUS_PER_TASK=\"$SLURM_CPUS_PER_TASK\"\n";
  // Each job runs one point as any sweep does, so that its outcome becomes a row in any case.
  return out + "exec " + quoted_words(a.command) +
         " --launcher srun --only \"${points[$SLURM_ARRAY_TASK_ID]}\"\n";
}

}  // namespace stretto
