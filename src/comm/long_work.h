// Work that may take any time as long as it moves on, such as writing and reading large files, and
// that some ranks end long before others. Those at work say so, those that are done wait in short
// calls: the watchdog of each rank sees signs of life while bytes move anywhere, and none when they
// have stopped.
//
//     LongWork work(world);
//     for (...) { read(chunk); work.moved(); }
//     work.wait();
#pragma once

#include <cstdint>

#include "comm/comm.h"

namespace stretto {

// Collective: every rank makes one, calls moved() as often as it likes, and wait() once.
class LongWork {
 public:
  explicit LongWork(Comm& world);

  void moved();  // a sign of life; from time to time for the others, too
  void wait();   // until every rank has come here

 private:
  bool any_at_work(bool me);

  Comm& world_;
  int64_t told_ns_;  // when the others heard of us last
};

}  // namespace stretto
