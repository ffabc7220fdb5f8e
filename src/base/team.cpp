#include "base/team.h"

#include <fmt/format.h>

#include "base/cores.h"
#include "base/start_thread.h"

namespace stretto {

Team& Team::of_this_thread() {
  thread_local Team team;
  return team;
}

Team::~Team() {
  ended_.store(true);
  state_.fetch_add(kRound);
  state_.notify_all();
}

void Team::grow(int helpers) {
  STRETTO_CHECK(helpers < static_cast<int>(kInside), "{} threads", helpers + 1);
  while (static_cast<int>(helpers_.size()) < helpers) {
    const int worker = static_cast<int>(helpers_.size()) + 1;
    helpers_.push_back(start_thread<std::jthread>(fmt::format("thread {}", worker),
                                                  [this, worker] { help(worker); }));
  }
}

void Team::run(int threads, int64_t pieces, Work work, void* context) {
  grow(threads - 1);
  job_ = {work, context, pieces, threads};
  next_.store(0, std::memory_order_relaxed);
  const uint32_t closed = state_.load(std::memory_order_relaxed);
  state_.store((closed + kRound) | kOpen, std::memory_order_release);
  state_.notify_all();
  take_pieces(0);
  uint32_t now = state_.fetch_and(~kOpen, std::memory_order_acquire) & ~kOpen;
  const auto all_left = [&] {
    now = state_.load(std::memory_order_acquire);
    return (now & kInside) == 0;
  };
  if (watch_until(all_left)) return;
  while (!all_left()) state_.wait(now, std::memory_order_acquire);
}

void Team::take_pieces(int worker) {
  for (int64_t piece; (piece = next_.fetch_add(1, std::memory_order_relaxed)) < job_.pieces;) {
    job_.work(job_.context, piece, worker);
  }
}

// Waits until another round than `last` has begun, or the team ends; returns the state.
uint32_t Team::next_round(uint32_t last) const {
  uint32_t now = 0;
  const auto begun = [&] {
    now = state_.load(std::memory_order_acquire);
    return now / kRound != last;
  };
  if (watch_until(begun)) return now;
  while (!begun()) state_.wait(now, std::memory_order_acquire);
  return now;
}

void Team::help(int worker) {
  uint32_t last = 0;
  while (true) {
    uint32_t now = next_round(last);
    if (ended_.load()) return;
    last = now / kRound;
    bool entered = false;
    while ((now & kOpen) != 0 && now / kRound == last && !entered) {
      entered = state_.compare_exchange_weak(now, now + 1, std::memory_order_acquire);
    }
    if (!entered) continue;
    if (worker < job_.threads) take_pieces(worker);
    const uint32_t before = state_.fetch_sub(1, std::memory_order_release);
    // The caller may be asleep, waiting for the last one inside.
    if ((before & (kInside | kOpen)) == 1) state_.notify_all();
  }
}

}  // namespace stretto
