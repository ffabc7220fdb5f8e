// Any bytes as a sweep: points, or refused with an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "bench/sweep_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    stretto::parse_sweep(stretto::parse_yaml(bytes, "input"));
  } catch (const stretto::Error& error) {
    if (error.code() == stretto::ExitCode::internal) throw;
  }
  return 0;
}
