// The one way that work is spread over the threads of a rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/team.h"

namespace stretto {

// Calls f(piece) or f(piece, worker) once for every piece in [0, pieces), on up to `threads`
// threads; worker < threads tells which one, for scratch memory. Which thread gets which piece
// varies from run to run, so a piece must write only what it owns; to stay independent of the
// number of threads, choose `pieces` from the shape alone and add partial results in piece order
// afterwards. A piece may wait for another only if there are as many threads as pieces. f must not
// throw, and must not call parallel_for. Safe to call from several std::threads at once: each has
// its own team.
template <typename F>
void parallel_for(int threads, int64_t pieces, F&& f) {
  const auto call = [](void* context, int64_t piece, int worker) {
    auto& work = *static_cast<std::remove_reference_t<F>*>(context);
    if constexpr (std::is_invocable_v<F&, int64_t, int>) {
      work(piece, worker);
    } else {
      work(piece);
    }
  };
  void* context = const_cast<void*>(static_cast<const void*>(&f));
  if (threads <= 1 || pieces <= 1) {
    for (int64_t piece = 0; piece < pieces; ++piece) call(context, piece, 0);
    return;
  }
  const int useful = static_cast<int>(std::min<int64_t>(pieces, threads));
  Team::of_this_thread().run(useful, pieces, call, context);
}

}  // namespace stretto
