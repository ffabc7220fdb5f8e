// What the cores of this process do meanwhile besides its own work: other programs, other virtual
// machines (as far as the kernel is told), nothing. A time measured on a busy machine says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stretto {

struct CoreUse {       // means over an interval, in cores
  int64_t usable = 0;  // 0: unknown
  double others = 0, idle = 0;

  // Others took what this program could have used.
  bool disturbed() const { return usable > 0 && others >= 0.1 && idle < others; }
};

std::string describe(const CoreUse& use);  // "other programs took 0.93 of 2 cores"

class CoreWatch {
 public:
  // An interval begins. `cores`: those that the process may use, by number; taken before its
  // threads are bound to some of them.
  explicit CoreWatch(std::vector<int> cores);

  double own_seconds() const;  // of processor time, this process, since then
  // Until now. `own`: the same of all processes that belong to the run and use these cores.
  CoreUse use(double own) const;

 private:
  std::vector<int> cores_;
  double start_, own_, busy_;  // seconds; busy_ < 0: unknown
};

}  // namespace stretto
