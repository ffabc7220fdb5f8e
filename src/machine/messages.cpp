// Measures how fast two ranks of this process talk, with real calls of the transport of `-n`.
#include <algorithm>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "comm/threads.h"
#include "machine/machine.h"

namespace stretto {
namespace {

// Seconds of one sum of `count` floats: the best of many short series, because other work on the
// machine can only make it longer.
double sum_seconds(Comm& world, std::vector<float>& data, int64_t count, int calls) {
  constexpr int kSeries = 12;
  double best = 1e300;
  const Tensor tensor(data.data(), DType::f32, {count});
  for (int series = 0; series < kSeries; ++series) {
    world.barrier();
    const double begin = clock_seconds();
    for (int i = 0; i < calls; ++i) world.all_reduce(tensor);
    const double seconds = clock_seconds() - begin;
    best = std::min(best, seconds / calls);
  }
  return best;
}

}  // namespace

void measure_messages(MachineRates& rates) {
  constexpr int64_t kLong = 128 << 10;  // floats: half a MiB, as activations are
  std::mutex mutex;
  run_thread_ranks(2, [&](Comm& world) {
    std::vector<float> data(kLong, 0.0f);
    const double little = sum_seconds(world, data, 2, 200);
    const double much = sum_seconds(world, data, kLong, 20);
    const std::lock_guard lock(mutex);
    // The ring volume of a sum over two ranks is its size.
    rates.message_seconds = std::max(rates.message_seconds, little);
    const double rate = 4.0 * kLong / std::max(1e-9, much - little);
    rates.message_rate = rates.message_rate > 0 ? std::min(rates.message_rate, rate) : rate;
  });
}

}  // namespace stretto
