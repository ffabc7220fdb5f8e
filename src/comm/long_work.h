// Work that may take any time as long as it makes progress, such as writing and reading large
// files, and that some ranks finish long before others. Ranks at work report progress, and ranks
// that are done wait for them in short calls. So the watchdogs of all ranks see signs of life while
// any rank makes progress, and none when all have stopped.
//   LongWork work(world);
//   for (...) { read(chunk); work.moved(); }
//   work.wait();
#pragma once

#include <cstdint>

#include "comm/comm.h"

namespace stretto {

// Collective: every rank makes one, calls moved() as often as it likes, and wait() once.
class LongWork {
 public:
  explicit LongWork(Comm& world);

  void moved();  // reports progress, now and then to the other ranks, too
  void wait();   // until every rank has called it

 private:
  bool any_at_work(bool me);

  Comm& world_;
  int64_t told_ns_;  // when this rank last told the others
};

}  // namespace stretto
