// What the cores of this process do meanwhile besides its own work: other programs, other virtual
// machines (as far as the kernel is told), nothing. A time measured on a busy machine says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stretto {

struct CoreUse {       // in cores, means over an interval
  int64_t usable = 0;  // 0: unknown
  double wanted = 0;   // threads of this program that compute
  double others = 0, idle = 0;

  // Cores that others took although this program wanted them.
  double lost() const { return others - (static_cast<double>(usable) - wanted); }
  bool disturbed() const { return usable > 0 && others >= 0.1 && lost() >= 0.1; }
};

std::string describe(const CoreUse& use);  // "other programs took 0.9 of 2 cores"

struct CoreReading {
  double time = 0;   // seconds of the clock
  double busy = -1;  // of processor time on all cores looked at; negative: unknown
};

// Between two readings of `usable` cores. `own`: seconds of processor time that the run's processes
// took on them; `wanted`: their threads. Unknown after less than half a second: the system counts
// in hundredths.
CoreUse core_use(const CoreReading& first, const CoreReading& last, int64_t usable, double own,
                 double wanted);

class CoreWatch {
 public:
  // An interval begins. `cores`: those that the process may use, by number; taken before its
  // threads are bound to some of them.
  explicit CoreWatch(std::vector<int> cores);

  double own_seconds() const;  // of processor time, this process, since then
  // Until now. `own`: the same of all processes that belong to the run and use these cores.
  CoreUse use(double own, double wanted) const;

 private:
  std::vector<int> cores_;
  CoreReading first_;
  double own_;  // seconds
};

}  // namespace stretto
