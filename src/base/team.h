// The helpers of a thread: they sleep, or for a moment watch, until it has pieces of work for them.
//
// Nobody waits for a helper that has not begun: the caller takes pieces like any other, and where
// none is left it closes the round and waits only for those that are inside a piece. So a core
// that other programs take costs what it would have given, not the time until it comes back, as
// the barrier at the end of an OpenMP region does.
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

  // Calls work(context, piece, worker) for every piece in [0, pieces) on up to `threads` threads,
  // this one included, which is worker 0.
  void run(int threads, int64_t pieces, Work work, void* context);

 private:
  // The state of rounds: how many helpers are inside, whether one may enter, and the round's
  // number.
  static constexpr uint32_t kInside = (1u << 12) - 1;
  static constexpr uint32_t kOpen = 1u << 12;
  static constexpr uint32_t kRound = 1u << 13;

  void grow(int helpers);
  void help(int worker);
  uint32_t next_round(uint32_t last) const;
  void take_pieces(int worker);

  struct {  // written while nobody is inside
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
