// The helper threads of a thread. They spin for a moment, then sleep, until it has pieces of work
// for them.
//
// Nobody waits for a helper that has not begun. The caller takes pieces like any helper; when none
// is left it closes the round and waits only for helpers that are inside a piece. So if another
// program takes a core, only that core's share of the work is lost. At the barrier that ends an
// OpenMP region all threads would wait until the core is free again.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace stretto {

class Team {
 public:
  using Work = void (*)(void* context, int64_t piece, int worker);

  static Team& of_this_thread();
  Team() = default;
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Calls work(context, piece, worker) for every piece in [0, pieces) on up to `threads` threads.
  // The calling thread takes part, as worker 0.
  void run(int threads, int64_t pieces, Work work, void* context);

 private:
  // The state packs: how many helpers are inside, whether more may enter, and the number of the
  // round.
  static constexpr uint32_t kInside = (1u << 12) - 1;
  static constexpr uint32_t kOpen = 1u << 12;
  static constexpr uint32_t kRound = 1u << 13;

  void grow(int helpers);
  void help(int worker);
  uint32_t next_round(uint32_t last) const;
  void take_pieces(int worker);

  struct {  // written only while no helper is inside
    Work work = nullptr;
    void* context = nullptr;
    int64_t pieces = 0;
    int threads = 0;
  } job_;
  alignas(64) std::atomic<uint32_t> state_ = 0;
  alignas(64) std::atomic<int64_t> next_ = 0;
  std::atomic<bool> ended_ = false;
  std::vector<std::jthread> helpers_;
};

}  // namespace stretto
