// stretto slurm: a batch file for a configuration.
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/log.h"
#include "base/shell_text.h"
#include "base/terminal.h"
#include "base/units.h"
#include "bench/process.h"
#include "cli/verbs.h"
#include "config/reader.h"
#include "config/rules.h"
#include "config/suggest.h"
#include "train/launch.h"
#include "train/sbatch.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Prints a Slurm batch file for a configuration\n\n"
    "Examples:\n"
    "  stretto slurm configs/runs/parallel.yaml -N 2 --ntasks-per-node 4 > job.sbatch\n"
    "  stretto slurm tiny -N 1 --time 02:00:00 output=runs/tiny | sbatch\n\n"
    "The job saves two minutes before its time limit, starts again by itself and goes on from its\n"
    "last checkpoint (give the run an `output` directory).\n";

struct Options {
  std::vector<std::string> words;
  SbatchJob job;
  int64_t nodes = 1;
  int64_t tasks = 0;
};

// The model's name without characters that a run name must not contain.
std::string name_for(const Config& config) {
  std::string name;
  for (const char c : config.model.name) {
    if (is_safe_name("x" + std::string(1, c)) && (c != '.' || !name.empty())) name += c;
  }
  return is_safe_name(name) ? name : "stretto";
}

// Numbers of nodes over which the ranks can be spread evenly.
std::vector<std::string> even_nodes(int64_t ranks) {
  std::vector<std::string> counts;
  for (int64_t n = 1; n <= ranks; ++n) {
    if (ranks % n == 0) counts.push_back(fmt::format("{}", n));
  }
  return counts;
}

int64_t ranks_per_node(const Config& config, int64_t nodes) {
  const int64_t ranks = config.world_size();
  if (ranks > nodes && ranks % nodes != 0) {
    throw Error(ExitCode::usage,
                fmt::format("-N {}: {} (dp {} x tp {} x pp {}) are not the same number on each",
                            nodes, counted(ranks, "rank"), config.parallel.dp, config.parallel.tp,
                            config.parallel.pp),
                fmt::format("use -N {}", join_or(even_nodes(ranks))));
  }
  return std::max<int64_t>(1, ranks / nodes);
}

void warn_of_many_gpus(const SbatchJob& job) {
  constexpr int64_t kUsual = 8;
  if (job.gpus_per_node <= kUsual) return;
  const int64_t ranks = job.nodes * job.tasks_per_node;
  int64_t nodes = ceil_div(ranks, kUsual);
  while (ranks % nodes != 0) ++nodes;
  const std::string better =
      nodes < ranks ? fmt::format("; -N {} puts {} on each", nodes, ranks / nodes) : "";
  spdlog::warn("{} GPUs on each node, more than nodes usually have{}", job.gpus_per_node, better);
}

void slurm(const Options& options) {
  ResolvedConfig resolved = load_config(options.words);
  Config& config = resolved.config;
  if (options.nodes < 1 || options.nodes > 100000 || options.tasks < 0 || options.tasks > 100000) {
    throw Error(ExitCode::usage,
                fmt::format("-N {} --ntasks-per-node {}", options.nodes, options.tasks),
                "use 1 to 100000 nodes and tasks");
  }
  SbatchJob job = options.job;
  job.nodes = options.nodes;
  job.tasks_per_node = options.tasks;
  if (job.tasks_per_node == 0) job.tasks_per_node = ranks_per_node(config, job.nodes);
  fit_world(resolved, job.nodes * job.tasks_per_node);
  require_valid(resolved);
  if (job.name.empty()) job.name = name_for(config);
  if (job.cpus_per_task == 0) job.cpus_per_task = config.threads;
  if (config.device == Device::cuda) job.gpus_per_node = job.tasks_per_node;
  job.program = own_program();
  job.directory = std::filesystem::current_path().string();
  job.words = options.words;
  job.output = config.output;
  if (config.output.empty()) {
    spdlog::warn("no `output` directory: the job cannot go on after a stop");
  }
  const std::string file = sbatch_file(job);
  warn_of_many_gpus(job);
  fmt::print("{}", for_stdout(file));
}

}  // namespace

void add_slurm(Command& app) {
  Command* verb = app.add_subcommand("slurm", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_settings(options->words)->required();
  verb->add_option("-N,--nodes", options->nodes, "nodes")->capture_default_str();
  verb->add_option("--ntasks-per-node", options->tasks,
                   "ranks per node (default: dp x tp x pp / nodes)");
  verb->add_option("--cpus-per-task", options->job.cpus_per_task,
                   "cores per rank (default: `threads`)");
  verb->add_option("--time", options->job.time, "time limit")->capture_default_str();
  verb->add_option("--partition", options->job.partition, "queue");
  verb->add_option("--account", options->job.account, "who pays");
  verb->add_option("--name", options->job.name, "job name (default: the model's)");
  verb->add_option("--mpi", options->job.mpi, "srun's MPI type")->capture_default_str();
  verb->callback([options] { slurm(*options); });
}

}  // namespace stretto::cli
