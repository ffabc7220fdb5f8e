// The largest amount of memory that this process has had, without pages of files: those belong to
// the system, which may drop them, and a corpus that is mapped into memory adds more of them with
// every step.
#pragma once

#include <cstdint>
#include <mutex>

namespace stretto {

// The system keeps a high-water mark of all resident pages, but none without pages of files. So
// memory is looked at now and then, and the larger of two lower bounds is taken: the most own
// memory in any look, and the high-water mark minus the most file pages in any look. The second one
// also covers peaks between looks. It is too small if file pages came in after such a peak; then
// the first one holds, because what a step needs is there in every step.
class ResidentPeak {
 public:
  ResidentPeak();  // begins now: earlier peaks (such as measuring a machine) do not count

  // Any thread may call it. To be called while files are mapped, because their pages disappear with
  // the mapping but stay in the high-water mark.
  void look();
  int64_t bytes();  // includes a look

 private:
  std::mutex mutex_;
  int64_t own_ = 0, file_ = 0, mark_ = 0;
};

}  // namespace stretto
