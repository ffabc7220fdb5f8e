#include "comm/long_work.h"

namespace stretto {
namespace {

// A call waits until the slowest rank, which finishes a chunk first, makes its next call. So calls
// must not be frequent.
constexpr int64_t kTellEveryNs = 250'000'000;

}  // namespace

LongWork::LongWork(Comm& world) : world_(world), told_ns_(monotonic_ns()) {}

bool LongWork::any_at_work(bool me) {
  int32_t busy = me ? 1 : 0;
  world_.all_reduce(Tensor(&busy, DType::i32, {1}), ReduceOp::max);
  return busy != 0;
}

void LongWork::moved() {
  world_.monitor().beat();
  if (world_.size() == 1 || monotonic_ns() - told_ns_ < kTellEveryNs) return;
  any_at_work(true);
  told_ns_ = monotonic_ns();
}

void LongWork::wait() {
  while (any_at_work(false)) {
  }
}

}  // namespace stretto
