// While it lives no thread can be started, as at the limit of a user or of a control group.
#pragma once

#include <pthread.h>

#include <system_error>
#include <thread>

#include "base/error.h"

namespace stretto {

class NoThreads {
 public:
  NoThreads() {
    STRETTO_CHECK(pthread_getattr_default_np(&before_) == 0);
    pthread_attr_t after;
    STRETTO_CHECK(pthread_getattr_default_np(&after) == 0);
    STRETTO_CHECK(pthread_attr_setstacksize(&after, size_t{1} << 56) == 0);  // beyond all addresses
    STRETTO_CHECK(pthread_setattr_default_np(&after) == 0);
    pthread_attr_destroy(&after);
    STRETTO_CHECK(!can_start(), "a thread starts all the same");
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  static bool can_start() {
    try {
      std::thread([] {}).join();
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  pthread_attr_t before_;
};

}  // namespace stretto
