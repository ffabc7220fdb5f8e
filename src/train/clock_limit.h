// A ceiling for the clock of a GPU. It is set by nvidia-smi, which needs the right to do so. A
// separate shell holds the ceiling and lifts it when this object is destroyed or its process ends,
// however that happens.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace stretto {

class ClockLimit {
 public:
  explicit ClockLimit(std::string gpu);  // as `nvidia-smi -i` takes it: a PCI bus id
  ~ClockLimit();                         // returns when the ceiling is lifted, or after 10 s
  ClockLimit(const ClockLimit&) = delete;
  ClockLimit& operator=(const ClockLimit&) = delete;

  // 0 lifts the ceiling. Throws Error(no_permission) with the message of nvidia-smi.
  void set(int64_t mhz);

 private:
  std::string gpu_;
  pid_t holder_ = -1;
  int line_ = -1;  // to it and back
};

}  // namespace stretto
