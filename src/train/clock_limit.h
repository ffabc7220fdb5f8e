// A ceiling for the clock of a GPU, set by nvidia-smi, which takes rights. A shell of its own holds
// it and lifts it when this object or its process is gone, however that ended.
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

  // 0: as the card comes. Throws Error (no_permission) with what nvidia-smi says.
  void set(int64_t mhz);

 private:
  std::string gpu_;
  pid_t holder_ = -1;
  int line_ = -1;  // to it and back
};

}  // namespace stretto
