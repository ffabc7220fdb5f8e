// The most memory that this process has had for itself, pages of files left out: they are the
// system's to give and take, and a corpus that is read through a mapping fills them step by step.
#pragma once

#include <cstdint>
#include <mutex>

namespace stretto {

// The system keeps the high-water mark of all resident pages and no mark of either part. So parts
// are looked at now and then, and two lower bounds are taken together: the most own memory of any
// look, and the mark less the most file pages of any look. The second one knows of peaks between
// looks. It falls short where file pages came in after such a peak, and then the first one holds:
// what a step needs is there from the first to the last one.
class ResidentPeak {
 public:
  ResidentPeak();  // begins now: what came before is forgotten (measuring a machine, say)

  // Any thread. To be called while mappings of files live: their pages go with them, but stay in
  // the mark.
  void look();
  int64_t bytes();  // looks as well

 private:
  std::mutex mutex_;
  int64_t own_ = 0, file_ = 0, mark_ = 0;
};

}  // namespace stretto
