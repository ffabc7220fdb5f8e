// Runs one task on several threads until it is done.
#pragma once

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

namespace stretto {

// Calls work(worker) on up to `threads` threads and returns when all calls have returned. If the
// system cannot start some of the threads, they are missing; if it can start none, this thread does
// the work. `work` must not throw.
template <typename Work>
void run_workers(int threads, const Work& work) {
  std::vector<std::jthread> workers;
  try {
    for (int i = 0; i < std::max(threads, 1); ++i) workers.emplace_back([&work, i] { work(i); });
  } catch (const std::system_error&) {
    if (workers.empty()) work(0);
  }
}

}  // namespace stretto
