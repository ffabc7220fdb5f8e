#include "parallel/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "comm/threads.h"
#include "parallel/simulate.h"

namespace stretto {
namespace {

constexpr PipelineSchedule kAll[] = {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                                     PipelineSchedule::interleaved, PipelineSchedule::zero_bubble};

// Calls check(schedule) for every kind and all p <= 8, m <= 24, v <= 4.
template <typename Check>
void for_all_schedules(Check check) {
  for (const PipelineSchedule kind : kAll) {
    for (int p = 1; p <= 8; ++p) {
      for (int m = 1; m <= 24; ++m) {
        const int most = kind == PipelineSchedule::interleaved ? 4 : 1;
        for (int v = 1; v <= most; ++v) check(make_schedule(kind, p, m, v));
      }
    }
  }
}

std::string label(const Schedule& s) {
  return "kind " + std::to_string(static_cast<int>(s.kind)) + " p " + std::to_string(s.stages) +
         " m " + std::to_string(s.micro_batches) + " v " + std::to_string(s.chunks);
}

TEST(Schedule, AllAreValid) {
  for_all_schedules(
      [](const Schedule& s) { EXPECT_EQ(check_schedule(s).problem, "") << label(s); });
}

TEST(Schedule, SmallOnesAsDrawnByHand) {
  EXPECT_EQ(schedule_text(make_schedule(PipelineSchedule::gpipe, 2, 3)),
            "F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2\n");
  EXPECT_EQ(schedule_text(make_schedule(PipelineSchedule::one_f_one_b, 3, 4)),
            "F0 F1 F2 B0 F3 B1 B2 B3\nF0 F1 B0 F2 B1 F3 B2 B3\nF0 B0 F1 B1 F2 B2 F3 B3\n");
  EXPECT_EQ(schedule_text(make_schedule(PipelineSchedule::interleaved, 2, 2, 2)),
            "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1\nF0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1\n");
}

int most_at_once(const Schedule& s, int rank) {
  int live = 0;
  int most = 0;
  for (const Task& task : s.ranks[static_cast<size_t>(rank)]) {
    live += task.kind == TaskKind::forward ? 1 : -1;
    most = std::max(most, live);
  }
  return most;
}

// Peaks decide how much memory activations take.
TEST(Schedule, ActivationsInFlight) {
  for_all_schedules([](const Schedule& s) {
    const ScheduleCheck check = check_schedule(s);
    for (int r = 0; r < s.stages; ++r) {
      const auto& peak = check.peak[static_cast<size_t>(r)];
      const int m = s.micro_batches;
      const int p = s.stages;
      if (s.kind == PipelineSchedule::gpipe) {
        EXPECT_EQ(peak[0], m);
      }
      if (s.kind == PipelineSchedule::one_f_one_b) {
        EXPECT_EQ(peak[0], std::min(m, p - r));
      }
      if (s.kind == PipelineSchedule::zero_bubble) {
        EXPECT_LE(peak[0], std::min(m, p));
      }
      if (s.kind == PipelineSchedule::interleaved) {
        EXPECT_LE(most_at_once(s, r), 2 * (p - 1 - r) + (s.chunks - 1) * p + 1) << label(s);
      }
    }
  });
}

// Micro-batch i may use slot i % peak of its chunk: never taken when its forward begins.
TEST(Schedule, SlotsAreFreeWhenNeeded) {
  for_all_schedules([](const Schedule& s) {
    const ScheduleCheck check = check_schedule(s);
    for (size_t r = 0; r < s.ranks.size(); ++r) {
      std::vector<std::vector<int>> slots;
      for (const int peak : check.peak[r]) slots.emplace_back(static_cast<size_t>(peak), -1);
      for (const Task& task : s.ranks[r]) {
        auto& of_chunk = slots[static_cast<size_t>(task.chunk)];
        int& slot = of_chunk[static_cast<size_t>(task.micro_batch) % of_chunk.size()];
        if (task.kind == TaskKind::forward) {
          ASSERT_EQ(slot, -1) << label(s);
          slot = task.micro_batch;
        } else {
          ASSERT_EQ(slot, task.micro_batch) << label(s);
          if (task.kind != TaskKind::backward_input) slot = -1;
        }
      }
    }
  });
}

TEST(Schedule, CheckFindsWhatIsWrong) {
  const Schedule good = make_schedule(PipelineSchedule::one_f_one_b, 2, 3);
  Schedule bad = good;
  bad.ranks[0].pop_back();
  EXPECT_NE(check_schedule(bad).problem, "");
  bad = good;
  bad.ranks[1].push_back(bad.ranks[1].back());
  EXPECT_NE(check_schedule(bad).problem.find("twice"), std::string::npos);
  bad = good;
  std::swap(bad.ranks[1][0], bad.ranks[1][1]);  // backward before its forward
  EXPECT_NE(check_schedule(bad).problem.find("before"), std::string::npos);
  bad = good;
  // Rank 0 wants the gradient of micro-batch 1 before it has sent micro-batch 1.
  bad.ranks[0] = {{TaskKind::forward, 0, 0}, {TaskKind::backward, 1, 0},
                  {TaskKind::forward, 1, 0}, {TaskKind::backward, 0, 0},
                  {TaskKind::forward, 2, 0}, {TaskKind::backward, 2, 0}};
  EXPECT_NE(check_schedule(bad).problem.find("for ever"), std::string::npos);
  bad = good;
  bad.ranks[0][0].micro_batch = 3;
  EXPECT_NE(check_schedule(bad).problem.find("exist"), std::string::npos);
  EXPECT_THROW(make_schedule(PipelineSchedule::gpipe, 2, 2, 2), Error);
}

// Real ranks, real messages: each stage adds 1 on the way there and 100 on the way back.
void execute(const Schedule& s, Comm& pp) {
  const auto rank = pp.rank();
  std::vector<RequestPtr> sends;
  std::vector<std::unique_ptr<float>> sent;
  std::vector<float> stored(static_cast<size_t>(s.virtual_stages() * s.micro_batches), -1);
  for (const Task& task : s.ranks[static_cast<size_t>(rank)]) {
    if (task.kind == TaskKind::backward_weight) continue;
    const int stage = s.virtual_stage(rank, task.chunk);
    float& mine = stored[static_cast<size_t>(stage * s.micro_batches + task.micro_batch)];
    const bool forward = task.kind == TaskKind::forward;
    float x = forward ? static_cast<float>(1000 * task.micro_batch) : mine;
    const Transfer in = input_of(s, rank, task);
    if (in.peer >= 0) pp.recv({&x, DType::f32, {1}}, in.peer, in.tag);
    if (forward) {
      EXPECT_EQ(x, static_cast<float>(1000 * task.micro_batch + stage)) << label(s);
      x += 1;
      mine = x;
    } else {
      const int way = s.virtual_stages() - 1 - stage;
      EXPECT_EQ(x, static_cast<float>(1000 * task.micro_batch + s.virtual_stages() + 100 * way));
      x += 100;
    }
    const Transfer out = output_of(s, rank, task);
    if (out.peer < 0) continue;
    sent.push_back(std::make_unique<float>(x));
    sends.push_back(pp.start_send({sent.back().get(), DType::f32, {1}}, out.peer, out.tag));
  }
  for (const RequestPtr& request : sends) request->wait();
}

TEST(Schedule, RunsOnRealRanks) {
  for (const PipelineSchedule kind : kAll) {
    for (const int p : {1, 2, 4}) {
      for (const int m : {1, 3, 4, 9}) {
        for (const int v : {1, 2, 3}) {
          if (v > 1 && kind != PipelineSchedule::interleaved) continue;
          const Schedule s = make_schedule(kind, p, m, v);
          run_thread_ranks(p, [&](Comm& pp) { execute(s, pp); });
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto
