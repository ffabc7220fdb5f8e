// The one way that work is spread over the threads of a rank.
#pragma once

#include <omp.h>

#include <cstdint>
#include <type_traits>

#ifdef __SANITIZE_THREAD__
#include <atomic>
#include <thread>
#include <vector>
#endif

namespace stretto {

// Calls f(piece) or f(piece, worker) once for every piece in [0, pieces), on up to `threads`
// threads; worker < threads tells which one, for scratch memory. Which thread gets which piece
// varies from run to run, so a piece must write only what it owns; to stay independent of the
// number of threads, choose `pieces` from the shape alone and add partial results in piece order
// afterwards. f must not throw, and must not call parallel_for. Safe to call from several
// std::threads at once: each has its own team.
template <typename F>
void parallel_for(int threads, int64_t pieces, F&& f) {
  const auto call = [&f](int64_t piece, int worker) {
    if constexpr (std::is_invocable_v<F&, int64_t, int>) {
      f(piece, worker);
    } else {
      f(piece);
    }
  };
  if (threads <= 1 || pieces <= 1) {
    for (int64_t piece = 0; piece < pieces; ++piece) call(piece, 0);
    return;
  }
  const int team = static_cast<int>(pieces < threads ? pieces : threads);
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer does not see what libgomp orders: threads that it knows, instead.
  std::atomic<int64_t> next = 0;
  const auto work = [&](int worker) {
    for (int64_t piece; (piece = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) {
      call(piece, worker);
    }
  };
  std::vector<std::jthread> others;
  for (int worker = 1; worker < team; ++worker) others.emplace_back(work, worker);
  work(0);
#else
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
  for (int64_t piece = 0; piece < pieces; ++piece) call(piece, omp_get_thread_num());
#endif
}

}  // namespace stretto
