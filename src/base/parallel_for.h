// The one way to spread work over the threads of a rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/team.h"

namespace stretto {

// Calls f(piece) or f(piece, worker) once for every piece in [0, pieces), on up to `threads`
// threads. worker < threads tells which thread it is, for scratch memory. Which thread takes which
// piece varies from run to run, so a piece may only write what is its own. To make a result
// independent of the number of threads, choose `pieces` from the shape alone and add partial
// results in piece order afterwards. A piece may only wait for another one if there are as many
// threads as pieces. f must not throw and must not call parallel_for. May be called from several
// std::threads at once: each has its own team.
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
