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

// The first 16 characters of a communicator's name, packed into integers that atomics can hold.
using GroupTag = std::array<uint64_t, 2>;
GroupTag group_tag(std::string_view name);
std::string group_name(const GroupTag& tag);

// One rank's row. It is in memory that other processes map, so it holds only atomics and no
// pointers.
struct RankStatus {
  std::atomic<int64_t> beat_ns{0};
  // Stamped by the rank's watchdog while its process runs; 0: no watchdog.
  std::atomic<int64_t> alive_ns{0};
  std::atomic<int64_t> step{-1};
  std::atomic<uint64_t> seq{0};    // how many collectives this rank has begun
  std::atomic<uint64_t> bytes{0};  // size of the one that it waits in
  std::atomic<uint64_t> group[2]{};
  std::atomic<uint32_t> waits_in{0};  // a CommKind; none: it computes
  std::atomic<uint32_t> section{0};
  std::atomic<int32_t> rank{-1};    // in the world; -1: the row is not in use yet
  std::atomic<int32_t> stage{-1};   // of the pipeline; -1: there is no pipeline
  std::atomic<int32_t> process{0};  // process number
  std::atomic<uint64_t> space{0};   // the pid namespace of that number; 0: unknown
};

// Whether the row's process has ended, so that its number is unused. False if that cannot be known.
bool process_ended(const RankStatus& row);

// Such as "step 12 (stage 1)", "save at step 10" or "init".
std::string place_of(const RankStatus& row);

// The rows of all ranks on this machine, and which of them reported a failure first.
struct StatusBoard {
  std::shared_ptr<void> owner;  // owns the memory of rows and reporter
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

// Writes one rank's row. Only the rank's own thread writes; its watchdog reads.
class RankMonitor {
 public:
  RankMonitor(StatusBoard board, int row, int rank);

  void beat() { status().beat_ns.store(monotonic_ns(), std::memory_order_relaxed); }
  void alive() { status().alive_ns.store(monotonic_ns(), std::memory_order_relaxed); }
  void enter(Section section, int64_t step = -1);
  void set_stage(int stage) { status().stage.store(stage, std::memory_order_relaxed); }
  // The beginning of a message, such as "rank 3 in step 12 (stage 1)". Without the place during
  // start-up, where all ranks do the same.
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
