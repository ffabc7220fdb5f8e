#include "train/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/log.h"
#include "train/gather.h"

namespace stretto {
namespace {

constexpr size_t kCapacity = size_t{1} << 17;  // events per rank, 56 bytes each
constexpr size_t kTaskCapacity = size_t{1} << 14;

// Whole nanoseconds: rounding preserves the order of times, so nested slices stay nested.
int64_t nanoseconds(double time, const TraceRank& rank) {
  return std::llround((time + rank.offset - rank.zero) * 1e9);
}

std::string microseconds(int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

std::string metadata(int rank, const char* what, const std::string& args, int thread = -1) {
  const std::string tid = thread < 0 ? "" : fmt::format("\"tid\":{},", thread);
  return fmt::format(R"({{"name":"{}","ph":"M","pid":{},{}"args":{{{}}}}},)"
                     "\n",
                     what, rank, tid, args);
}

std::string title(const TraceEvent& e) {
  // A stage without work waits in recv: that time, with the transfer itself, is the bubble.
  if (e.lane == TraceLane::pp && std::strcmp(e.name, "recv") == 0) return "bubble (recv)";
  return e.number < 0 ? e.name : fmt::format("{} {}", e.name, e.number);
}

std::string span_json(const TraceEvent& e, const TraceRank& rank) {
  const int64_t start = nanoseconds(e.start, rank), end = nanoseconds(e.end, rank);
  std::string args;
  if (e.bytes > 0) args = fmt::format("\"bytes\":{}", e.bytes);
  const bool task = e.lane == TraceLane::compute || e.lane == TraceLane::gpu;
  if (task && e.number >= 0) {
    args = fmt::format("\"micro_batch\":{},\"chunk\":{}", e.number, e.chunk);
  }
  return fmt::format(R"({{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}},)"
                     "\n",
                     title(e), rank.rank, trace_thread(rank.rank, e.lane), microseconds(start),
                     microseconds(end - start), args);
}

std::string flow_json(const TraceEvent& e, const TraceRank& rank) {
  const bool out = e.kind == TraceEvent::Kind::flow_out;
  return fmt::format(
      R"({{"name":"{}","cat":"pipeline","ph":"{}",{}"id":{},"pid":{},"tid":{},"ts":{}}},)"
      "\n",
      e.name, out ? "s" : "f", out ? "" : R"("bp":"e",)", e.id, rank.rank,
      trace_thread(rank.rank, e.lane), microseconds(nanoseconds(e.start, rank)));
}

}  // namespace

int trace_thread(int rank, TraceLane lane) {
  static_assert(kTraceLanes <= 16);
  return 16 * (rank + 1) + static_cast<int>(lane);
}

std::string trace_events(const TraceBuffer& buffer, const TraceRank& rank) {
  std::vector<TraceEvent> events(buffer.events().begin(), buffer.events().end());
  std::stable_sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  std::string out = metadata(rank.rank, "process_name",
                             fmt::format(R"j("name":"rank {} (dp {}, tp {}, pp {})")j", rank.rank,
                                         rank.at.dp, rank.at.tp, rank.at.pp));
  out += metadata(rank.rank, "process_sort_index", fmt::format("\"sort_index\":{}", rank.rank));
  bool used[kTraceLanes] = {};
  for (const TraceEvent& e : events) used[static_cast<size_t>(e.lane)] = true;
  for (int lane = 0; lane < kTraceLanes; ++lane) {
    if (!used[lane]) continue;
    const std::string name = fmt::format(R"("name":"{}")", name_of(static_cast<TraceLane>(lane)));
    const int thread = trace_thread(rank.rank, static_cast<TraceLane>(lane));
    out += metadata(rank.rank, "thread_name", name, thread);
    out += metadata(rank.rank, "thread_sort_index", fmt::format("\"sort_index\":{}", lane), thread);
  }
  for (const TraceEvent& e : events) {
    out += e.kind == TraceEvent::Kind::span ? span_json(e, rank) : flow_json(e, rank);
  }
  return out;
}

double bubble_share(const TraceBuffer& buffer) {
  std::vector<std::pair<double, double>> waits;
  double total = 0;
  for (const TraceEvent& e : buffer.events()) {
    if (e.kind != TraceEvent::Kind::span) continue;
    if (e.lane == TraceLane::pp) waits.emplace_back(e.start, e.end);
    if (e.lane == TraceLane::step) total += e.end - e.start;
  }
  // Messages of a GPU that travel through the host are two slices, one inside the other.
  std::sort(waits.begin(), waits.end());
  double waited = 0, last = -std::numeric_limits<double>::infinity();
  for (const auto& [start, end] : waits) {
    waited += std::max(0.0, end - std::max(start, last));
    last = std::max(last, end);
  }
  return total > 0 ? waited / total : 0;
}

StepTracer::StepTracer(const Config& config, int64_t steps_done, std::string path, bool keep_tasks,
                       Fs& fs)
    : path_(std::move(path)), fs_(fs) {
  const int64_t left = config.train.steps - steps_done;
  const int64_t count = std::min(config.trace, left);
  if (count > 0) {
    first_ = steps_done + std::min<int64_t>(2, left - count + 1);
    last_ = first_ + count - 1;
    buffer_.emplace(kCapacity, TraceDetail::operators);
  }
  if (!keep_tasks) return;
  tasks_.emplace(kTaskCapacity, TraceDetail::tasks);
}

TraceBuffer* StepTracer::buffer(const Trainer& trainer, int64_t step) {
  const bool traced = buffer_ && step >= first_ && step <= last_;
  if (!traced) {
    if (!tasks_) return nullptr;
    tasks_->clear();  // only the last step is kept
    return &*tasks_;
  }
  const Coordinates& at = trainer.at();
  buffer_->set_scope((static_cast<uint64_t>(step) * static_cast<uint64_t>(trainer.mesh().dp()) +
                      static_cast<uint64_t>(at.dp)) *
                         static_cast<uint64_t>(trainer.mesh().tp()) +
                     static_cast<uint64_t>(at.tp));
  return &*buffer_;
}

void StepTracer::after_step(Trainer& trainer, int64_t step, bool speaks) {
  if (!buffer_ || step != last_) return;
  write(trainer, speaks);
  buffer_.reset();
}

std::vector<TraceEvent> StepTracer::tasks() const {
  std::vector<TraceEvent> out;
  if (!tasks_) return out;
  for (const TraceEvent& e : tasks_->events()) {
    const bool task = e.lane == TraceLane::compute && e.number >= 0;
    if (task && e.kind == TraceEvent::Kind::span) out.push_back(e);
  }
  return out;
}

void StepTracer::write(Trainer& trainer, bool speaks) {
  Comm& world = trainer.world();
  TraceRank rank{world.rank(), trainer.at(), 0, clock_offset(world)};
  double earliest = buffer_->events().empty() ? 0 : 1e300;
  for (const TraceEvent& e : buffer_->events()) earliest = std::min(earliest, e.start);
  double latest_start = -(earliest + rank.offset);  // negated: the maximum is the earliest
  world.all_reduce(Tensor(&latest_start, DType::f64, {1}), ReduceOp::max);
  rank.zero = -latest_start;
  double sums[] = {bubble_share(*buffer_), static_cast<double>(buffer_->dropped())};
  world.all_reduce(Tensor(sums, DType::f64, {2}));
  const double bubble = sums[0] / world.size();
  const std::vector<std::string> parts = gather_texts(world, trace_events(*buffer_, rank));
  if (world.rank() != 0) return;
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (const std::string& part : parts) text += part;
  text.erase(text.rfind(','));
  text += fmt::format(
      "\n],\"otherData\":{{\"first_step\":{},\"last_step\":{},\"ranks\":{},\"dropped_events\":{},"
      "\"waiting_for_pp\":{:.6f}}}}}\n",
      first_, last_, world.size(), static_cast<int64_t>(sums[1]), bubble);
  try {
    write_file_atomic(fs_, path_, text);
  } catch (const Error& error) {
    spdlog::warn("no timeline: {}; training goes on", error.what());
    return;
  }
  if (!speaks) return;
  spdlog::info("timeline of steps {} to {} in {} (open it in ui.perfetto.dev){}", first_, last_,
               path_,
               trainer.mesh().pp() > 1
                   ? fmt::format("; stages wait for each other {:.1f} % of the time", 100 * bubble)
                   : "");
  if (sums[1] > 0) {
    spdlog::warn("the timeline is incomplete: {} events did not fit; trace fewer steps", sums[1]);
  }
}

}  // namespace stretto
