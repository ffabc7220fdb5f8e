// What each rank is doing, for the watchdog: a board with one row per rank of this machine (in
// shared memory between processes), and a flight recorder of the last collectives of one rank.
// Both are written with relaxed atomic stores only: a few nanoseconds per call.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace stretto {

enum class CommKind : uint32_t {
  none,
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  send,
  recv,
  barrier,
  split,
};
const char* name_of(CommKind kind);

enum class Section : uint32_t { init, step, eval, save, done };
const char* name_of(Section section);

// The first 16 characters of a communicator's name, as numbers that fit atomics.
using GroupTag = std::array<uint64_t, 2>;
GroupTag group_tag(std::string_view name);
std::string group_name(const GroupTag& tag);

// One rank's row. Lives in memory that other processes map: atomics only, no pointers.
struct RankStatus {
  std::atomic<int64_t> beat_ns{0};
  std::atomic<int64_t> alive_ns{0};  // by the rank's watchdog: its process runs; 0: no watchdog
  std::atomic<int64_t> step{-1};
  std::atomic<uint64_t> seq{0};    // collectives this rank has begun
  std::atomic<uint64_t> bytes{0};  // of the one it waits in
  std::atomic<uint64_t> group[2]{};
  std::atomic<uint32_t> waits_in{0};  // CommKind; none: it computes
  std::atomic<uint32_t> section{0};
  std::atomic<int32_t> rank{-1};    // in the world; -1: nobody there yet
  std::atomic<int32_t> stage{-1};   // of the pipeline; -1: there is none
  std::atomic<int32_t> process{0};  // its number, in this space of numbers (containers have
  std::atomic<uint64_t> space{0};   // their own; 0: unknown)
};

// Whether the row's process is gone: its number is free again. False where nobody can know.
bool process_ended(const RankStatus& row);

// "step 12 (stage 1)", "save at step 10", "init".
std::string place_of(const RankStatus& row);

// Rows of all ranks on this machine, and who was first to report a failure.
struct StatusBoard {
  std::shared_ptr<void> owner;  // keeps rows and reporter alive
  RankStatus* rows = nullptr;
  int count = 0;
  std::atomic<uint32_t>* reporter = nullptr;  // 0: nobody; only the first may print

  static StatusBoard in_process(int ranks);
  bool claim_report() const { return reporter->exchange(1) == 0; }
};

class FlightRecorder {
 public:
  static constexpr size_t kEntries = 4096;
  enum class State : uint32_t { empty, started, done };

  struct Entry {
    uint64_t seq;
    CommKind kind;
    State state;
    uint64_t bytes;
    GroupTag group;
  };

  FlightRecorder() : slots_(kEntries) {}

  void start(uint64_t seq, CommKind kind, uint64_t bytes, const GroupTag& group);
  void finish(uint64_t seq);
  std::vector<Entry> last(size_t count) const;  // oldest first; safe from any thread
  std::string text(size_t count) const;         // one line each

 private:
  struct Slot {
    std::atomic<uint64_t> seq{0};
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> group[2]{};
    std::atomic<uint32_t> kind{0};
    std::atomic<uint32_t> state{0};
  };
  std::vector<Slot> slots_;
  std::atomic<uint64_t> newest_{0};
};

// One rank's writer. Written by the rank's own thread, read by its watchdog.
class RankMonitor {
 public:
  RankMonitor(StatusBoard board, int row, int rank);

  void beat() { status().beat_ns.store(monotonic_ns(), std::memory_order_relaxed); }
  void alive() { status().alive_ns.store(monotonic_ns(), std::memory_order_relaxed); }
  void enter(Section section, int64_t step = -1);
  void set_stage(int stage) { status().stage.store(stage, std::memory_order_relaxed); }
  // "rank 3 in step 12 (stage 1)", to begin a message with; without a place during start, where all
  // ranks do the same.
  std::string who() const;
  uint64_t begin(CommKind kind, uint64_t bytes, const GroupTag& group);  // returns its number
  void finish(uint64_t seq);
  void wait_begins(CommKind kind, uint64_t bytes, const GroupTag& group);
  void wait_ends();

  int rank() const { return rank_; }
  const StatusBoard& board() const { return board_; }
  const RankStatus& status() const { return board_.rows[row_]; }
  const FlightRecorder& recorder() const { return recorder_; }

 private:
  RankStatus& status() { return board_.rows[row_]; }

  StatusBoard board_;
  int row_;
  int rank_;
  uint64_t seq_ = 0;
  FlightRecorder recorder_;
};

}  // namespace stretto
