#include "bench/resident.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace stretto {
namespace {

struct Resident {
  int64_t own = 0, file = 0, mark = 0;  // bytes; a mark of 0 means that the system has none
};

Resident resident() {
  Resident now;
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kib = 0;
  while (status >> word) {
    if (word == "VmHWM:" && status >> kib) now.mark = kib * 1024;
    if (word == "RssFile:" && status >> kib) now.file = kib * 1024;
    // Shared: used together with other ranks of a launcher.
    const bool own = word == "RssAnon:" || word == "RssShmem:";
    if (own && status >> kib) now.own += kib * 1024;
    if (word == "RssShmem:") break;  // the last line of interest
  }
  return now;
}

}  // namespace

ResidentPeak::ResidentPeak() {
  malloc_trim(0);
  // Resets the high-water mark to what is resident now.
  std::ofstream("/proc/self/clear_refs") << "5";
  look();
}

void ResidentPeak::look() {
  const Resident now = resident();
  const std::lock_guard lock(mutex_);
  own_ = std::max(own_, now.own);
  file_ = std::max(file_, now.file);
  mark_ = std::max(mark_, now.mark);
}

int64_t ResidentPeak::bytes() {
  look();
  const std::lock_guard lock(mutex_);
  if (mark_ > 0) return std::max(own_, mark_ - file_);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace stretto
