// Libraries built with OpenMP use as many threads as OpenMP would give their caller. We divide the
// work ourselves, so each of our threads must be alone in such a call.
#pragma once

#include <omp.h>

namespace stretto {

// The setting is one per thread, so create the object on the thread that makes the call.
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
