#include <fmt/format.h>

#include <algorithm>

#include "parallel/schedule.h"

namespace stretto {
namespace {

// Bits for what has been done for one (virtual stage, micro-batch).
enum Done : uint8_t { kForward = 1, kInput = 2, kWeight = 4 };

class Player {
 public:
  explicit Player(const Schedule& schedule)
      : s_(schedule),
        done_(static_cast<size_t>(schedule.virtual_stages()) *
              static_cast<size_t>(schedule.micro_batches)),
        next_(static_cast<size_t>(schedule.stages)),
        live_(next_.size(), std::vector<int>(static_cast<size_t>(schedule.chunks))),
        peak_(live_) {}

  ScheduleCheck play() {
    play_all_but(-1);
    if (problem_.empty()) check_all_done();
    return {problem_, peak_};
  }

  std::vector<bool> next_inputs(int rank) {
    const std::vector<Task>& tasks = s_.ranks[static_cast<size_t>(rank)];
    std::vector<bool> come;
    for (size_t i = 1; i < tasks.size(); ++i) {
      play_all_but(rank);
      come.push_back(arrived(s_.virtual_stage(rank, tasks[i].chunk), tasks[i]));
      step(rank);
    }
    return come;
  }

 private:
  // Executes the tasks of all other ranks as far as they get.
  void play_all_but(int rank) {
    bool moved = true;
    while (moved && problem_.empty()) {
      moved = false;
      for (int r = 0; r < s_.stages; ++r) {
        while (r != rank && problem_.empty() && step(r)) moved = true;
      }
    }
  }

  uint8_t& done(int stage, int micro_batch) {
    return done_[static_cast<size_t>(stage) * static_cast<size_t>(s_.micro_batches) +
                 static_cast<size_t>(micro_batch)];
  }

  void blame(int rank, const Task& task, const char* what) {
    problem_ = fmt::format("rank {}: {} of micro-batch {}, chunk {} {}", rank, name_of(task.kind),
                           task.micro_batch, task.chunk, what);
  }

  // Executes the next task of a rank if its input has arrived.
  bool step(int rank) {
    const auto r = static_cast<size_t>(rank);
    const std::vector<Task>& tasks = s_.ranks[r];
    if (next_[r] == tasks.size()) return false;
    const Task& task = tasks[next_[r]];
    if (task.micro_batch < 0 || task.micro_batch >= s_.micro_batches || task.chunk < 0 ||
        task.chunk >= s_.chunks) {
      blame(rank, task, "does not exist");
      return false;
    }
    const int stage = s_.virtual_stage(rank, task.chunk);
    if (!arrived(stage, task)) return false;
    execute(rank, stage, task);
    ++next_[r];
    return true;
  }

  bool arrived(int stage, const Task& task) {
    if (task.kind == TaskKind::backward_weight) return true;
    if (task.kind == TaskKind::forward) {
      return stage == 0 || (done(stage - 1, task.micro_batch) & kForward) != 0;
    }
    return stage == s_.virtual_stages() - 1 || (done(stage + 1, task.micro_batch) & kInput) != 0;
  }

  void execute(int rank, int stage, const Task& task) {
    uint8_t& state = done(stage, task.micro_batch);
    uint8_t needs = kForward;
    uint8_t gives = kInput | kWeight;
    if (task.kind == TaskKind::forward) needs = 0, gives = kForward;
    if (task.kind == TaskKind::backward_input) gives = kInput;
    if (task.kind == TaskKind::backward_weight) needs = kForward | kInput, gives = kWeight;
    if ((state & needs) != needs) return blame(rank, task, "comes before what it needs");
    if ((state & gives) != 0) return blame(rank, task, "comes twice");
    state |= gives;
    int& live = live_[static_cast<size_t>(rank)][static_cast<size_t>(task.chunk)];
    int& peak = peak_[static_cast<size_t>(rank)][static_cast<size_t>(task.chunk)];
    if ((gives & kForward) != 0) peak = std::max(peak, ++live);
    if ((gives & kWeight) != 0) --live;
  }

  void check_all_done() {
    for (int r = 0; r < s_.stages; ++r) {
      const auto& tasks = s_.ranks[static_cast<size_t>(r)];
      const size_t next = next_[static_cast<size_t>(r)];
      if (next < tasks.size()) return blame(r, tasks[next], "waits for ever");
    }
    const auto open = std::find_if(done_.begin(), done_.end(), [](uint8_t d) { return d != 7; });
    if (open == done_.end()) return;
    const auto index = static_cast<int>(open - done_.begin());
    problem_ = fmt::format("virtual stage {} never finishes micro-batch {}",
                           index / s_.micro_batches, index % s_.micro_batches);
  }

  const Schedule& s_;
  std::vector<uint8_t> done_;
  std::vector<size_t> next_;
  std::vector<std::vector<int>> live_;
  std::vector<std::vector<int>> peak_;
  std::string problem_;
};

}  // namespace

std::vector<bool> next_input_comes(const Schedule& schedule, int rank) {
  return Player(schedule).next_inputs(rank);
}

ScheduleCheck check_schedule(const Schedule& schedule) {
  if (schedule.ranks.size() != static_cast<size_t>(schedule.stages)) {
    return {fmt::format("{} lists of tasks for {} ranks", schedule.ranks.size(), schedule.stages),
            {}};
  }
  return Player(schedule).play();
}

}  // namespace stretto
