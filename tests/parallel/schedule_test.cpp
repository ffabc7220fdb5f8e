#include "parallel/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "comm/threads.h"
#include "parallel/simulate.h"
#include "parallel/stage_shape.h"

namespace stretto {
namespace {

constexpr PipelineSchedule kAll[] = {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                                     PipelineSchedule::interleaved, PipelineSchedule::zero_bubble,
                                     PipelineSchedule::eager_one_f_one_b};

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

struct Message {
  int peer, tag;
};

// What a rank's tasks receive and send, in order.
std::vector<Message> messages_of(const Schedule& s, int rank, bool sent) {
  std::vector<Message> all;
  for (const Task& task : s.ranks[static_cast<size_t>(rank)]) {
    const Transfer t = sent ? output_of(s, rank, task) : input_of(s, rank, task);
    if (t.peer >= 0) all.push_back({t.peer, t.tag});
  }
  return all;
}

std::vector<int> tags_with(const std::vector<Message>& all, int peer, int parity) {
  std::vector<int> tags;
  for (const Message& m : all) {
    if (m.peer == peer && m.tag % 2 == parity) tags.push_back(m.tag);
  }
  return tags;
}

// NCCL has no tags: over each link of the ring, messages of one direction arrive as they were sent.
TEST(Schedule, MessagesOfALinkKeepTheirOrder) {
  for_all_schedules([](const Schedule& s) {
    for (int from = 0; from < s.stages; ++from) {
      const auto sent = messages_of(s, from, true);
      size_t received = 0;
      for (int parity = 0; parity < 2; ++parity) {
        const int to = (from + (parity == 0 ? 1 : s.stages - 1)) % s.stages;
        const auto tags = tags_with(sent, to, parity);
        EXPECT_EQ(tags, tags_with(messages_of(s, to, false), from, parity)) << label(s);
        received += tags.size();
      }
      EXPECT_EQ(received, sent.size()) << label(s) << ": a message to no neighbour";
      // Nor are two messages of a short step taken for each other.
      std::set<std::pair<int, int>> names;
      for (const Message& m : sent) names.emplace(m.peer, m.tag);
      EXPECT_EQ(names.size(), sent.size()) << label(s) << ": a tag for two messages";
    }
  });
}

// A message over NCCL leaves only when its receiver waits for it. With a channel for each direction
// of each link, and the buffers that the trainer waits for, no schedule stands still.
class Rendezvous {
 public:
  // Whether a task ends only when all that its rank has queued is done.
  using Waits = std::function<bool(int rank, size_t at)>;

  explicit Rendezvous(const Schedule& s, Waits waits = {})
      : s_(s), waits_(std::move(waits)), ranks_(s.ranks.size()), peak_(check_schedule(s).peak) {}

  bool finishes() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < s_.stages; ++r) moved |= step(r);
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].at != s_.ranks[r].size()) return false;
    }
    return true;
  }

 private:
  using Link = std::pair<int, int>;  // sender, parity
  struct Ends {
    size_t sent = 0, posted = 0;  // by sender and receiver
  };
  struct Rank {
    size_t at = 0;
    bool begun = false;  // the task waits for what it receives
  };

  // Begins the rank's next task if what it overwrites has gone; runs it if what it receives has
  // come.
  bool step(int rank) {
    Rank& here = ranks_[static_cast<size_t>(rank)];
    const std::vector<Task>& tasks = s_.ranks[static_cast<size_t>(rank)];
    if (here.at == tasks.size()) return false;
    const Task& task = tasks[here.at];
    const Transfer in = input_of(s_, rank, task), out = output_of(s_, rank, task);
    const Link from{in.peer, in.tag % 2}, to{rank, out.tag % 2};
    if (!here.begun) {
      if (!gone(rank, task)) return false;
      if (in.peer >= 0) ++links_[from].posted;
      return here.begun = true;
    }
    if (in.peer >= 0 && links_[from].sent < links_[from].posted) return false;
    if (waits_ && waits_(rank, here.at) && !all_taken(rank)) return false;
    if (out.peer >= 0) last_[key(rank, task)] = {to, links_[to].sent++};
    if (task.kind != TaskKind::forward && task.kind != TaskKind::backward_weight)
      ++backwards_[rank];
    here = {here.at + 1, false};
    return true;
  }

  bool all_taken(int rank) {
    const Ends &even = links_[{rank, 0}], &odd = links_[{rank, 1}];
    return even.posted >= even.sent && odd.posted >= odd.sent;
  }

  // Forward writes its slot's output again, backward one of two gradient buffers.
  std::tuple<int, int, int> key(int rank, const Task& task) {
    if (task.kind != TaskKind::forward) return {rank, -1, backwards_[rank] % 2};
    const auto slots = peak_[static_cast<size_t>(rank)][static_cast<size_t>(task.chunk)];
    return {rank, task.chunk, static_cast<int>(task.micro_batch % slots)};
  }
  bool gone(int rank, const Task& task) {
    if (task.kind == TaskKind::backward_weight) return true;
    const auto it = last_.find(key(rank, task));
    return it == last_.end() || links_[it->second.first].posted > it->second.second;
  }

  const Schedule& s_;
  Waits waits_;
  std::vector<Rank> ranks_;
  decltype(ScheduleCheck::peak) peak_;
  std::map<Link, Ends> links_;
  std::map<std::tuple<int, int, int>, std::pair<Link, size_t>> last_;
  std::map<int, int> backwards_;
};

TEST(Schedule, NeverStandsStillWithoutBuffersInBetween) {
  for_all_schedules([](const Schedule& s) { EXPECT_TRUE(Rendezvous(s).finishes()) << label(s); });
}

// The same tasks, and no rank ever has two messages on their way: whatever a task waits for, it
// comes.
TEST(Schedule, OneByOneEveryTaskMayWaitForAllThatIsQueued) {
  const auto always = [](int, size_t) { return true; };
  for_all_schedules([&](const Schedule& s) {
    const Schedule calm = one_by_one(s);
    EXPECT_EQ(check_schedule(calm).problem, "") << label(s);
    EXPECT_TRUE(s.stages == 1 || Rendezvous(calm, always).finishes()) << label(s);
    for (const auto& chunks : check_schedule(calm).peak) {
      EXPECT_EQ(chunks, std::vector<int>(chunks.size(), 1)) << label(s);
    }
    for (size_t r = 0; r < s.ranks.size(); ++r) {
      EXPECT_TRUE(std::is_permutation(calm.ranks[r].begin(), calm.ranks[r].end(),
                                      s.ranks[r].begin(), s.ranks[r].end()))
          << label(s);
    }
  });
}

TEST(Schedule, AllAreValid) {
  for_all_schedules(
      [](const Schedule& s) { EXPECT_EQ(check_schedule(s).problem, "") << label(s); });
}

// One line per rank, for people: "F0 F1 B0 ..." (i = backward_input, w = backward_weight; chunks
// after the first as F0.1).
std::string schedule_text(const Schedule& schedule) {
  constexpr const char* kLetters[] = {"F", "B", "i", "w"};
  std::string out;
  for (const std::vector<Task>& tasks : schedule.ranks) {
    for (const Task& task : tasks) {
      if (&task != tasks.data()) out += ' ';
      out += kLetters[static_cast<int>(task.kind)] + std::to_string(task.micro_batch);
      if (task.chunk > 0) out += "." + std::to_string(task.chunk);
    }
    out += '\n';
  }
  return out;
}

TEST(Schedule, SmallOnesAsDrawnByHand) {
  EXPECT_EQ(schedule_text(make_schedule(PipelineSchedule::gpipe, 2, 3)),
            "F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2\n");
  EXPECT_EQ(schedule_text(make_schedule(PipelineSchedule::one_f_one_b, 3, 4)),
            "F0 F1 F2 B0 F3 B1 B2 B3\nF0 F1 B0 F2 B1 F3 B2 B3\nF0 B0 F1 B1 F2 B2 F3 B3\n");
  EXPECT_EQ(schedule_text(make_schedule(PipelineSchedule::eager_one_f_one_b, 3, 5)),
            "F0 F1 F2 F3 F4 B0 B1 B2 B3 B4\nF0 F1 F2 B0 F3 B1 F4 B2 B3 B4\n"
            "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4\n");
  EXPECT_EQ(schedule_text(make_schedule(PipelineSchedule::interleaved, 2, 2, 2)),
            "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1\nF0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1\n");
}

// Which inputs a rank may wait for while it still computes: never those that its own result, on
// whatever way, brings about.
TEST(Schedule, WhatAResultBringsAboutIsNotWaitedForBefore) {
  using Comes = std::vector<bool>;
  const auto comes = [](PipelineSchedule kind, int m, int rank) {
    return next_input_comes(make_schedule(kind, 2, m), rank);
  };
  // F0 B0: the gradient is the answer to F0.
  EXPECT_EQ(comes(PipelineSchedule::one_f_one_b, 1, 0), Comes({false}));
  // F0 F1 B0 B1 beside F0 B0 F1 B1.
  EXPECT_EQ(comes(PipelineSchedule::one_f_one_b, 2, 0), Comes({true, true, true}));
  EXPECT_EQ(comes(PipelineSchedule::one_f_one_b, 2, 1), Comes({true, true, true}));
  // F0 F1 B0 B1 on both: the second stage answers after its F1.
  EXPECT_EQ(comes(PipelineSchedule::gpipe, 2, 0), Comes({true, false, true}));
  EXPECT_EQ(comes(PipelineSchedule::gpipe, 2, 1), Comes({true, true, true}));
  for_all_schedules([](const Schedule& s) {
    for (int r = 0; r < s.stages; ++r) {
      const std::vector<Task>& tasks = s.ranks[static_cast<size_t>(r)];
      const std::vector<bool> come = next_input_comes(s, r);
      ASSERT_EQ(come.size() + 1, tasks.size()) << label(s);
      for (size_t i = 0; i < come.size(); ++i) {
        const bool answer = tasks[i].kind == TaskKind::forward &&
                            tasks[i + 1].kind != TaskKind::forward &&
                            tasks[i].micro_batch == tasks[i + 1].micro_batch;
        const bool none = input_of(s, r, tasks[i + 1]).peer < 0;
        EXPECT_TRUE(come[i] || !none) << label(s);
        EXPECT_FALSE(come[i] && answer && !none) << label(s);
      }
    }
  });
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
      if (s.kind == PipelineSchedule::eager_one_f_one_b) {
        EXPECT_EQ(peak[0], std::min(m, 2 * (p - 1 - r) + 1));
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

// What the memory plan counts, of a schedule cut short, is what the whole schedule needs.
TEST(Schedule, InFlightIsThePeakOfTheWholeSchedule) {
  for (const PipelineSchedule kind : kAll) {
    for (int p = 1; p <= 6; ++p) {
      for (const int m : {1, 2, 3, 5, 8, 4 * p - 1, 4 * p, 4 * p + 1, 5 * p, 7 * p + 2, 64}) {
        for (int v = 1; v <= (kind == PipelineSchedule::interleaved ? 4 : 1); ++v) {
          const Schedule whole = make_schedule(kind, p, m, v);
          const auto peaks = check_schedule(whole).peak;
          for (int rank = 0; rank < p; ++rank) {
            const std::vector<int>& peak = peaks[static_cast<size_t>(rank)];
            EXPECT_EQ(in_flight(kind, p, m, v, rank),
                      std::vector<int64_t>(peak.begin(), peak.end()))
                << label(whole) << " rank " << rank;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto
