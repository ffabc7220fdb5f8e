#include "bench/rank_reports.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "base/clock.h"
#include "base/host.h"
#include "base/random.h"
#include "bench/statistics.h"
#include "train/gather.h"

namespace stretto {
namespace {

static_assert(kParts == kOpClasses + 5);

// Seconds that a pair of clock readings takes, which is part of every operator and every call.
double clock_pair_seconds() {
  constexpr int kPairs = 20000;
  const double start = clock_seconds();
  double last = start;
  for (int i = 0; i < 2 * kPairs; ++i) last = clock_seconds();
  return (last - start) / kPairs;
}

// 52 bits, exact in a double.
double number_of(std::string_view text) { return static_cast<double>(stream_of(text) >> 12); }

// Gathers the same figures of each rank, in rank order.
template <size_t N>
std::vector<std::array<double, N>> gathered(Comm& world, const std::array<double, N>& mine) {
  constexpr auto kCount = static_cast<int64_t>(N);
  std::vector<std::array<double, N>> all(static_cast<size_t>(world.size()));
  world.all_gather(Tensor(all.data(), DType::f64, {world.size() * kCount}),
                   ConstTensor(mine.data(), DType::f64, {kCount}));
  return all;
}

std::string packed(const std::vector<TraceEvent>& tasks, double offset) {
  std::vector<double> numbers;
  for (const TraceEvent& e : tasks) {
    double kind = 0;
    for (int k = 0; k < 4; ++k) {
      if (std::strcmp(e.name, name_of(static_cast<TaskKind>(k))) == 0) kind = k;
    }
    numbers.insert(numbers.end(), {kind, static_cast<double>(e.number),
                                   static_cast<double>(e.chunk), e.start + offset, e.end + offset});
  }
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

std::vector<RunTask> unpacked(const std::string& bytes) {
  std::vector<RunTask> tasks;
  double n[5];
  for (size_t at = 0; at + sizeof n <= bytes.size(); at += sizeof n) {
    std::memcpy(n, bytes.data() + at, sizeof n);
    tasks.push_back({static_cast<TaskKind>(n[0]), static_cast<int64_t>(n[1]),
                     static_cast<int64_t>(n[2]), n[3], n[4]});
  }
  return tasks;
}

}  // namespace

void RankReports::Rank::add(const StepRecord& step) {
  const StepTimes& t = step.times;
  std::vector<double>& rows = step.by_operator ? by_operator_ : rows_;
  rows.insert(rows.end(), t.ops.begin(), t.ops.end());
  rows.insert(rows.end(), {t.comm_dp, t.comm_tp, t.comm_pp, t.data, std::max(0.0, t.host())});
  double clocks = 2 * static_cast<double>(step.comm_calls());  // for starting and waiting
  for (const OpTotals& op : step.operators) {
    rows.insert(rows.end(), {static_cast<double>(op.calls), op.seconds, op.flops, op.bytes});
    clocks += static_cast<double>(op.calls);
  }
  rows.insert(rows.end(), {clocks, t.total});
}

RankReports::Rank RankReports::join(bool first) {
  const std::lock_guard lock(mutex_);
  joined_ = true;
  has_first_ = has_first_ || first;
  return {};
}

void RankReports::note(const StepRecord& step) {
  if (step.by_operator) {
    ++noted_by_operator_;
    return;
  }
  steps_.push_back({step.times.total, step.loss, step.skipped});
  gpu_.push_back(step.gpu);
  device_bytes_ = std::max(device_bytes_, step.device_bytes);
}

void RankReports::gather_timeline(Comm& world, const RunResult& result, const Coordinates& at) {
  const double offset = clock_offset(world);
  const bool shown = at.dp == 0 && at.tp == 0;
  const std::vector<std::string> all =
      gather_texts(world, shown ? packed(result.tasks, offset) : std::string());
  if (world.rank() != 0) return;
  double zero = 1e300;
  for (const std::string& bytes : all) {  // rank numbers grow with the stage
    if (bytes.empty()) continue;
    timeline_.push_back(unpacked(bytes));
    for (const RunTask& task : timeline_.back()) zero = std::min(zero, task.start);
  }
  for (auto& stage : timeline_) {
    for (RunTask& task : stage) {
      task.start -= zero;
      task.end -= zero;
    }
  }
}

// Processes on the same cores of the same machine share them. The place that lost most time to
// other programs represents the run.
void RankReports::gather_cores(Comm& world, const std::string& host, const Process& process) {
  const bool watches = process.watch.has_value();
  const double place = number_of(fmt::format("{} {}", host, fmt::join(process.cores, ",")));
  std::array<double, 3> mine = {place, 0, 0};
  if (watches) mine = {place, process.watch->own_seconds(), static_cast<double>(process.threads)};
  double own_here = 0, threads_here = 0;
  int64_t on_cores = 0;
  for (const auto& [there, own, threads] : gathered(world, mine)) {
    own_here += there == place ? own : 0.0;
    threads_here += there == place ? threads : 0.0;
    on_cores += there == place ? 1 : 0;
  }
  const CoreUse use = watches ? process.watch->use(own_here, threads_here) : CoreUse{};
  const auto all =
      gathered<4>(world, {static_cast<double>(use.usable), use.wanted, use.others, use.idle});
  if (world.rank() != 0) return;
  neighbours_.on_cores = on_cores;
  neighbours_.cores = std::ssize(process.cores);
  for (const auto& [usable, wanted, others, idle] : all) {
    const CoreUse here{static_cast<int64_t>(usable), wanted, others, idle};
    if (here.usable > 0 && (cores_.usable == 0 || here.lost() > cores_.lost())) cores_ = here;
  }
}

void RankReports::gather(Comm& world, const Rank& mine, const RunResult& result,
                         const Coordinates& at, const Process& process) {
  std::vector<double> rows = mine.rows_, by_operator = mine.by_operator_;
  for (std::vector<double>* sums : {&rows, &by_operator}) {
    if (sums->empty()) continue;
    world.all_reduce(Tensor(sums->data(), DType::f64, {std::ssize(*sums)}));
    for (double& x : *sums) x /= world.size();
  }
  const double per_rank = static_cast<double>(process.grown) / static_cast<double>(process.ranks);
  const std::string host = host_name();
  const auto ranks = gathered<2>(world, {per_rank, number_of(host)});
  gather_cores(world, host, process);
  gather_timeline(world, result, at);
  if (world.rank() != 0) return;
  code_ = result.code;
  rows_ = std::move(rows);
  by_operator_ = std::move(by_operator);
  std::set<double> hosts;
  double total = 0, most = ranks[0][0];
  for (const auto& [bytes, machine] : ranks) {
    hosts.insert(machine);
    neighbours_.here += machine == ranks[0][1] ? 1 : 0;
    total += bytes;
    most = std::max(most, bytes);
  }
  nodes_ = std::ssize(hosts);
  grown_total_ = static_cast<int64_t>(total);
  grown_rank_ = static_cast<int64_t>(most);
}

void RankReports::fill(RunRecord& record, int64_t allowance) const {
  record.steps = steps_;
  record.nodes = nodes_;
  record.cores = cores_;
  record.timeline = timeline_;
  record.memory.grown_rank = grown_rank_;
  record.memory.grown_total = grown_total_;
  std::vector<double> seconds;
  for (const StepSample& step : record.steps) seconds.push_back(step.seconds);
  // If the run ended early, at least half of its steps count.
  const int64_t most = std::min(allowance, std::ssize(seconds) / 2);
  record.warmup = find_warmup(seconds, most);
  record.settled = most == 0 || record.warmup < most;
  for (size_t s = static_cast<size_t>(record.warmup); s < gpu_.size(); ++s) {
    record.gpu.add(gpu_[s]);
  }
  if (device_bytes_ > 0) {  // on a GPU its memory is what counts
    RunMemory& m = record.memory;
    m.measured = static_cast<int64_t>(device_bytes_);
    m.before = 0;
    if (record.devices() == 1) m.grown_rank = m.grown_total = m.measured;
  }
  const bool apart = !by_operator_.empty();
  const std::vector<double>& rows = apart ? by_operator_ : rows_;
  const size_t first = apart ? 0 : static_cast<size_t>(record.warmup);
  const size_t last = apart ? rows.size() / kColumns : record.steps.size();
  std::vector<double> mean(kColumns, 0.0);
  for (size_t s = first; s < last; ++s) {
    if ((s + 1) * kColumns > rows.size()) return;  // nothing was gathered, because the run failed
    for (size_t i = 0; i < kColumns; ++i) {
      mean[i] += rows[s * kColumns + i] / static_cast<double>(last - first);
    }
  }
  std::copy_n(mean.begin(), kParts, record.parts.begin());
  for (size_t op = 0; op < kOps; ++op) {
    const double* t = &mean[kParts + 4 * op];
    record.operators[op] = {static_cast<uint64_t>(t[0] + 0.5), t[1], t[2], t[3]};
  }
  const double clocks = mean[kColumns - 2];
  record.parts_wall = mean[kColumns - 1];
  if (record.parts_wall > 0) {
    record.timing_overhead = clocks * clock_pair_seconds() / record.parts_wall;
  }
}

}  // namespace stretto
