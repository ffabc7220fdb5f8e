#include "base/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "parallel/schedule.h"
#include "support/temp_dir.h"
#include "train/trace_file.h"
#include "train/training.h"

namespace stretto {
namespace {

using nlohmann::json;

json traced(Config config, int64_t steps, const TempDir& dir) {
  config.output = dir / "run";
  config.trace = steps;
  train(config);
  return json::parse(read_file(posix_fs(), dir / "run/trace.json", 64 << 20));
}

struct Slice {
  std::string name;
  double start = 0, end = 0;  // microseconds
};
using Lanes = std::map<std::pair<int, int>, std::vector<Slice>>;  // by process and thread

std::pair<int, int> on(int rank, TraceLane lane) { return {rank, trace_thread(rank, lane)}; }

Lanes slices_of(const json& trace) {
  Lanes lanes;
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] != "X") continue;
    const double start = e["ts"], length = e["dur"];
    EXPECT_GE(start, 0);
    EXPECT_GE(length, 0);
    lanes[{e["pid"], e["tid"]}].push_back({e["name"], start, start + length});
  }
  return lanes;
}

size_t count_of(const std::vector<Slice>& slices, const std::string& prefix) {
  return static_cast<size_t>(std::count_if(
      slices.begin(), slices.end(), [&](const Slice& s) { return s.name.rfind(prefix, 0) == 0; }));
}

constexpr double kRounding = 1e-3;  // microseconds

// Where operators are shown, and arrows between tasks: where the work is done.
TraceLane working_lane() {
  return test_device() == Device::cuda ? TraceLane::gpu : TraceLane::compute;
}

Config pipeline_config(PipelineSchedule schedule) {
  Config config = tiny_config();
  config.parallel.pp = 2;
  config.parallel.dp = 2;
  config.parallel.schedule = schedule;
  config.train.steps = 4;
  return config;
}

// Slices come sorted by start, the longer first: each must end inside those that are open.
TEST(Trace, SlicesOfALaneAreNested) {
  const TempDir dir;
  size_t inside = 0;
  for (const auto& [lane, slices] :
       slices_of(traced(pipeline_config(PipelineSchedule::one_f_one_b), 2, dir))) {
    std::vector<double> open;
    for (const Slice& s : slices) {
      while (!open.empty() && open.back() <= s.start + kRounding) open.pop_back();
      if (!open.empty()) {
        ++inside;
        EXPECT_LE(s.end, open.back() + kRounding) << s.name << " on lane " << lane.second;
      }
      open.push_back(s.end);
    }
  }
  EXPECT_GT(inside, 100u);  // operators of tasks
}

TEST(Trace, LanesHaveThreadsOfTheirOwn) {
  std::set<int> threads;
  const int ranks = 100;
  for (int rank = 0; rank < ranks; ++rank) {
    for (int lane = 0; lane < kTraceLanes; ++lane) {
      const int thread = trace_thread(rank, static_cast<TraceLane>(lane));
      EXPECT_NE(thread, 0);
      EXPECT_NE(thread, rank);
      threads.insert(thread);
    }
  }
  EXPECT_EQ(threads.size(), static_cast<size_t>(ranks * kTraceLanes));
}

TEST(Trace, ShowsEveryTaskOfTheScheduleOnEveryRank) {
  const TempDir dir;
  const json trace = traced(pipeline_config(PipelineSchedule::zero_bubble), 2, dir);
  Lanes lanes = slices_of(trace);
  const size_t tasks = 2 * 2;  // steps, micro-batches of a replica: 8 samples by 2 over dp 2
  std::set<std::string> names;
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<Slice>& compute = lanes[on(rank, TraceLane::compute)];
    EXPECT_EQ(count_of(compute, "forward"), tasks);
    EXPECT_EQ(count_of(compute, "backward_input"), tasks);
    EXPECT_EQ(count_of(compute, "backward_weight"), tasks);
    EXPECT_EQ(count_of(compute, "optimizer"), 2u);
    const std::vector<Slice>& working = lanes[on(rank, working_lane())];
    EXPECT_EQ(count_of(working, "forward"), tasks);
    EXPECT_EQ(count_of(working, "optimizer"), 2u);
    EXPECT_GT(count_of(working, "linear_forward"), 0u);
    EXPECT_EQ(lanes[on(rank, TraceLane::step)].size(), 2u);
    EXPECT_GT((count_of(lanes[on(rank, TraceLane::pp)], "bubble")), 0u);
    EXPECT_FALSE(lanes[on(rank, TraceLane::dp)].empty());
  }
  for (const json& e : trace["traceEvents"]) {
    if (e["name"] == "process_name") names.insert(e["args"]["name"]);
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"rank 0 (dp 0, tp 0, pp 0)", "rank 1 (dp 1, tp 0, pp 0)",
                                   "rank 2 (dp 0, tp 0, pp 1)", "rank 3 (dp 1, tp 0, pp 1)"}));
  EXPECT_EQ(trace["otherData"]["first_step"], 2);
  EXPECT_EQ(trace["otherData"]["last_step"], 3);
  EXPECT_GT(trace["otherData"]["waiting_for_pp"].get<double>(), 0);
}

// Each rank's tasks with their micro-batches and chunks, in the order in which it does them.
TEST(Trace, HoldsTheTasksOfEverySchedule) {
  for (const PipelineSchedule kind :
       {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::eager_one_f_one_b,
        PipelineSchedule::interleaved, PipelineSchedule::zero_bubble}) {
    const TempDir dir;
    Config config = pipeline_config(kind);
    config.parallel.dp = 1;
    config.parallel.interleave = kind == PipelineSchedule::interleaved ? 2 : 1;
    const json trace = traced(config, 1, dir);
    const Schedule schedule =
        make_schedule(kind, 2, 4, static_cast<int>(config.parallel.interleave));
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<std::string> seen, wanted;
      for (const json& e : trace["traceEvents"]) {
        const bool task = e["ph"] == "X" && e["args"].contains("micro_batch");
        if (!task || e["tid"] != trace_thread(rank, TraceLane::compute)) continue;
        EXPECT_EQ(e["pid"], rank);
        const std::string name = e["name"];
        seen.push_back(name + " of chunk " + e["args"]["chunk"].dump());
        EXPECT_TRUE(name.ends_with(" " + e["args"]["micro_batch"].dump())) << name;
      }
      for (const Task& task : schedule.ranks[static_cast<size_t>(rank)]) {
        wanted.push_back(name_of(task.kind) + (" " + std::to_string(task.micro_batch)) +
                         " of chunk " + std::to_string(task.chunk));
      }
      EXPECT_EQ(seen, wanted) << name_of(kind) << ", rank " << rank;
    }
  }
}

// An arrow leaves inside a task, arrives inside a task of another rank, and not before it left.
TEST(Trace, ArrowsJoinTheTasksThatSendAndReceive) {
  const TempDir dir;
  const json trace = traced(pipeline_config(PipelineSchedule::one_f_one_b), 2, dir);
  Lanes lanes = slices_of(trace);
  struct Ends {
    std::vector<json> out, in;
  };
  std::map<uint64_t, Ends> flows;
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] == "s") flows[e["id"].get<uint64_t>()].out.push_back(e);
    if (e["ph"] == "f") flows[e["id"].get<uint64_t>()].in.push_back(e);
  }
  // Per step and replica: two micro-batches, forward and back, across one boundary.
  EXPECT_EQ(flows.size(), 2u * 2 * 2 * 2);
  const auto task_at = [&](const json& e) -> std::string {
    const double time = e["ts"];
    for (const Slice& s : lanes[{e["pid"], e["tid"]}]) {
      const bool task = s.name.rfind("forward", 0) == 0 || s.name.rfind("backward", 0) == 0;
      if (task && s.start <= time && time <= s.end) return s.name;
    }
    return "nothing";
  };
  for (const auto& [id, ends] : flows) {
    ASSERT_EQ(ends.out.size(), 1u);
    ASSERT_EQ(ends.in.size(), 1u);
    EXPECT_NE(ends.out[0]["pid"], ends.in[0]["pid"]);
    EXPECT_LE(ends.out[0]["ts"].get<double>(), ends.in[0]["ts"].get<double>() + kRounding);
    EXPECT_EQ(task_at(ends.out[0]), task_at(ends.in[0]));  // forward 1 to forward 1
    EXPECT_NE(task_at(ends.out[0]), "nothing");
    EXPECT_EQ(ends.in[0]["bp"], "e");
  }
}

TEST(Trace, ShowsSavesAndKeepsToItsSteps) {
  const TempDir dir;
  Config config = tiny_config();
  config.train.steps = 5;
  config.checkpoint.every = 1;
  const json trace = traced(config, 3, dir);
  Lanes lanes = slices_of(trace);
  const auto& steps = lanes[on(0, TraceLane::step)];
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].name, "step 2");
  EXPECT_EQ(lanes[on(0, TraceLane::save)].size(), 3u);
  EXPECT_FALSE(lanes[on(0, TraceLane::writer)].empty());
  EXPECT_EQ(lanes[on(0, TraceLane::loader)].size(), 3u * 4);
}

// What a GPU does is shown when it does it: within the step, and copies beside operators.
TEST(Trace, AGpuShowsItsOwnTimes) {
  if (test_device() != Device::cuda) GTEST_SKIP() << "no GPU";
  const TempDir dir;
  Config config = tiny_config();
  config.train.steps = 4;
  config.optimizer_offload = true;
  const json trace = traced(config, 2, dir);
  Lanes lanes = slices_of(trace);
  const std::vector<Slice>& steps = lanes[on(0, TraceLane::step)];
  ASSERT_EQ(steps.size(), 2u);
  constexpr double kClock = 50;  // microseconds by which the GPU's clock may be told wrong
  size_t slices = 0;
  for (const TraceLane lane : {TraceLane::gpu, TraceLane::gpu_to_host, TraceLane::gpu_from_host}) {
    EXPECT_FALSE(lanes[on(0, lane)].empty()) << name_of(lane);
    for (const Slice& s : lanes[on(0, lane)]) {
      ++slices;
      EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [&](const Slice& step) {
        return step.start - kClock <= s.start && s.end <= step.end + kClock;
      })) << s.name;
    }
  }
  EXPECT_GT(slices, 100u);
  // The GPU begins a task after the host has begun to queue it.
  const auto firsts = [&](TraceLane lane) {
    const auto& all = lanes[on(0, lane)];
    return std::find_if(all.begin(), all.end(),
                        [](const Slice& s) { return s.name == "forward 0"; });
  };
  ASSERT_NE(firsts(TraceLane::gpu), lanes[on(0, TraceLane::gpu)].end());
  EXPECT_GE(firsts(TraceLane::gpu)->start + kClock, firsts(TraceLane::compute)->start);
}

TEST(Trace, FewerStepsThanAskedForAreAllTraced) {
  const TempDir dir;
  Config config = tiny_config();
  config.train.steps = 2;
  const json other = traced(config, 10, dir)["otherData"];
  EXPECT_EQ(other["first_step"], 1);
  EXPECT_EQ(other["last_step"], 2);
}

TEST(Trace, ATimelineThatCannotBeWrittenEndsNoRun) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "run/trace.json");  // in its place
  Config config = tiny_config();
  config.output = dir / "run";
  config.train.steps = 3;
  config.trace = 1;
  EXPECT_EQ(train(config).size(), 3u);
  EXPECT_TRUE(std::filesystem::exists(dir / "run/checkpoints/step-3"));
}

// On GPUs without NCCL a wait of the device's communicator holds one of the host's.
TEST(Trace, TimeWaitedForAStageCountsOnce) {
  TraceBuffer buffer(8, TraceDetail::operators);
  buffer.span(TraceLane::step, "step", 0, 10);
  buffer.span(TraceLane::pp, "recv", 2, 3);  // the inner one ends first, and so comes first
  buffer.span(TraceLane::pp, "recv", 1, 4);
  buffer.span(TraceLane::pp, "send", 6, 8);
  buffer.span(TraceLane::dp, "all_reduce", 8, 9);
  EXPECT_DOUBLE_EQ(bubble_share(buffer), 0.5);
}

TEST(Trace, AFullBufferCountsWhatItDrops) {
  TraceBuffer buffer(3, TraceDetail::operators);
  for (int i = 0; i < 10; ++i) buffer.span(TraceLane::compute, "add", i, i + 0.5);
  EXPECT_EQ(buffer.events().size(), 3u);
  EXPECT_EQ(buffer.dropped(), 7u);
  EXPECT_EQ(current_trace(), nullptr);
}

}  // namespace
}  // namespace stretto
