// The run record: one JSON document per run, from which anyone can judge the run, and repeat it,
// without asking us.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "account/memory.h"
#include "backend/cuda/telemetry.h"
#include "backend/profile.h"
#include "base/error.h"
#include "base/fs.h"
#include "bench/build_info.h"
#include "bench/defaults.h"
#include "config/config.h"
#include "machine/core_use.h"
#include "parallel/schedule.h"

namespace stretto {

// stopped: ended in order, on request, before the last step. Like ok it is no failure.
enum class RunStatus { ok, oom, fail, timeout, diverged, killed, stopped, rejected };
const char* name_of(RunStatus status);  // ok, OOM, and the others as they are

struct StepSample {
  double seconds = 0;
  double loss = 0;  // nats; NaN where it was not finite
  bool skipped = false;
};

// Where the wall time of a step goes. `pp` is waiting for another stage: bubble and transfers.
enum class Part {
  matmul,
  attention,
  other,
  optimizer,
  copy,
  comm_dp,
  comm_tp,
  comm_pp,
  data,
  host
};
constexpr int kParts = 10;
const char* name_of(Part part);

struct RunMemory {             // bytes
  int64_t predicted_rank = 0;  // plan of the rank that needs most
  int64_t predicted_total = 0;
  int64_t measured = 0;  // peak resident size of the process that held `ranks_here` ranks
  int64_t before = 0;    // of the same process before the run
  int64_t ranks_here = 0;
  int64_t limit = 0;                                    // per rank
  std::array<int64_t, kMemoryTerms> predicted_terms{};  // of predicted_rank
  // By how much the processes grew: the one that grew most, per rank in it, and all of them
  // together.
  int64_t grown_rank = 0, grown_total = 0;
};

struct RunTask {  // one task of the pipeline, in seconds after the first of the step
  TaskKind kind = TaskKind::forward;
  int64_t micro_batch = 0, chunk = 0;
  double start = 0, end = 0;
};

struct RunPrediction {                    // of the planner, before the run; 0: none
  double seconds = 0, low = 0, high = 0;  // per step, with its interval
};

// State of the first rank's GPU during the timed steps.
struct RunGpu {
  int64_t samples = 0;  // 0: a CPU, or no NVML
  double sm_clock_mhz = 0, sm_clock_mhz_min = 0, memory_clock_mhz = 0;
  double power_watts = 0, power_watts_max = 0, temperature_c_max = 0;
  std::string held_back_by;  // "none", or reasons by name

  void add(const GpuWindow& window);

 private:
  uint64_t reasons_ = 0;
};

// How many ranks are on the first rank's machine, and how many of them may use its cores.
struct Neighbours {
  int64_t here = 0, on_cores = 0;  // itself included; 0: unknown
  int64_t cores = 0;
};

struct RunRecord {
  static constexpr int kSchema = 1;

  std::string source = "measured";   // records with another source predict nothing
  std::string label;                 // what a sweep calls the point; may be empty
  std::vector<std::string> command;  // argv; empty: no command made this record
  // What started the ranks, in the words of `sweep --launcher`: threads, mpirun (also for MPICH) or
  // srun. Empty in records from before this key.
  std::string launcher;
  Config config;  // resolved, micro_batch definite
  BuildInfo build;
  std::string machine;  // JSON object as text
  std::string device;   // "h100_80gb", a processor's name
  // FLOP/s per device in the precision of the run; 0: unknown. `peak_source` says where the peak
  // comes from.
  double peak = 0, gemm_peak = 0;
  std::string peak_source;
  std::string started;  // UTC, 2026-04-01T12:00:00Z
  std::string turns;    // the same in two runs that took their steps in turns; else empty
  double wall_seconds = 0;

  RunStatus status = RunStatus::ok;
  int exit_code = 0;
  std::string reason;    // empty if the status is ok, unless nothing was timed
  std::string log_tail;  // last lines of a run that failed

  std::vector<StepSample> steps;           // all of them, warm-up first; the last 1000 of `train`
  int64_t first_step = 1;                  // number of the first of them in the model's training
  int64_t warmup = 0;                      // how many of them do not count
  bool settled = true;                     // the times became steady within the allowance
  std::array<double, kParts> parts{};      // seconds per timed step, mean over steps and ranks
  double parts_wall = 0;                   // mean wall time, which `parts` add up to
  std::array<OpTotals, kOps> operators{};  // per timed step, likewise
  double timing_overhead = 0;              // share of a step that reading clocks takes
  std::vector<std::vector<RunTask>> timeline;  // of the last step, by pipeline stage of one replica
  RunMemory memory;
  RunPrediction predicted;
  int64_t nodes = 1;  // machines
  // If nonzero: so many ranks were requested, but `config` cannot be divided among them, so it
  // never ran.
  int64_t asked_ranks = 0;
  RunGpu gpu;
  CoreUse cores;  // during the timed steps; of the ranks that lost most to other programs

  // Other programs took cores that this run could have used, so its times are too long. Runs that
  // took turns expect that.
  bool disturbed() const { return turns.empty() && cores.disturbed(); }
  std::vector<double> timed_seconds() const;
  bool failed() const { return status != RunStatus::ok && status != RunStatus::stopped; }
  // Whether the figures count: it ended well with timed steps, or was stopped after as many as a
  // benchmark takes. Other records show their status in place of figures.
  bool counts() const;
  int64_t devices() const { return asked_ranks > 0 ? asked_ranks : config.world_size(); }
};

// On one line. A configuration may have several problems, each with its fix.
std::string reason_of(const Error& error);
RunStatus status_of(ExitCode code);  // of a run that ended with this code, which is not ok
void set_failure(RunRecord& record, const Error& error);  // status, exit code and reason

// Equal for two runs of one configuration, whatever they are called and wherever they write.
std::string config_hash(const Config& config);  // 16 hexadecimal digits

std::string record_text(const RunRecord& record);  // JSON, with the derived figures
// Strict about types, ranges and depth. Derived figures in the text are ignored and computed again.
// Throws Error (bad_data) naming the place.
RunRecord parse_record(std::string_view text, const std::string& name);

void write_record(Fs& fs, const std::string& path, const RunRecord& record);  // atomically
RunRecord read_record(Fs& fs, const std::string& path);
// All records at or below `path`: the file itself, DIR/*.json, DIR/points/*/record.json; if there
// are none, those of the runs and sweeps up to three directories deeper. Files without a record are
// skipped, with a warning unless runs are known to leave such files. Sorted by path.
struct FoundRecord {
  std::string path;
  RunRecord record;
};
std::vector<FoundRecord> find_records(Fs& fs, const std::string& path);
// Where results made from records go: beside a file, into a directory.
std::string results_directory(Fs& fs, const std::string& path);

std::string utc_now();

}  // namespace stretto
