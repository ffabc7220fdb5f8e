// Libraries that are built with OpenMP take as many threads as it would give their caller. We
// spread the work ourselves: each of our threads is to be alone in such a call.
#pragma once

#include <omp.h>

namespace stretto {

// A setting that every thread has for itself: to be made on the thread that calls.
class OneOpenMpThread {
 public:
  OneOpenMpThread() { omp_set_num_threads(1); }
  ~OneOpenMpThread() { omp_set_num_threads(before_); }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  const int before_ = omp_get_max_threads();
};

}  // namespace stretto
