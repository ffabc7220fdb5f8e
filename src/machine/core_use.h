// What else the cores of this process do: other programs, other virtual machines (as far as the
// kernel can see), or nothing. A time that was measured on a busy machine is marked by it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stretto {

struct CoreUse {       // in cores, means over an interval
  int64_t usable = 0;  // 0: unknown
  double wanted = 0;   // threads of this program that compute
  double others = 0, idle = 0;

  // Cores that others took although this program could have used them.
  double lost() const { return others - (static_cast<double>(usable) - wanted); }
  bool disturbed() const { return usable > 0 && others >= 0.1 && lost() >= 0.1; }
};

std::string describe(const CoreUse& use);  // "other programs took 0.9 of 2 cores"

struct CoreReading {
  double time = 0;   // seconds of the clock
  double busy = -1;  // seconds of processor time on all watched cores; negative: unknown
};

// The use of `usable` cores between two readings. `own`: seconds of processor time that the run's
// processes had on them; `wanted`: their threads. Unknown after less than half a second, because
// the system counts in hundredths.
CoreUse core_use(const CoreReading& first, const CoreReading& last, int64_t usable, double own,
                 double wanted);

class CoreWatch {
 public:
  // Starts an interval. `cores`: numbers of the cores that the process may use, read before its
  // threads are bound to some of them.
  explicit CoreWatch(std::vector<int> cores);

  double own_seconds() const;  // processor time of this process since the start
  // The use from the start until now. `own`: processor time of all processes that belong to the run
  // and use these cores.
  CoreUse use(double own, double wanted) const;

 private:
  std::vector<int> cores_;
  CoreReading first_;
  double own_;  // seconds
};

}  // namespace stretto
