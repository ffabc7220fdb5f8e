// Any bytes as a cluster file: read, or refused with an Error; never anything else.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "plan/cluster.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    stretto::plan::read_cluster({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  } catch (const stretto::Error&) {
  }
  return 0;
}
