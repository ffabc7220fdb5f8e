// While it lives no thread can be started, as at the limit of a user or of a control group.
#pragma once

#include <pthread.h>

namespace stretto {

class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t after;
    pthread_getattr_default_np(&after);
    pthread_attr_setstacksize(&after, size_t{1} << 56);  // more than there are addresses
    pthread_setattr_default_np(&after);
    pthread_attr_destroy(&after);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace stretto
