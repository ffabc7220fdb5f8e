// Any bytes as a run record: read and written back, or refused with an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "bench/record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const std::string text = stretto::record_text(stretto::parse_record(bytes, "input"));
    // What was accepted once must be accepted again, and say the same.
    if (stretto::record_text(stretto::parse_record(text, "again")) != text) __builtin_trap();
  } catch (const stretto::Error& error) {
    if (error.code() == stretto::ExitCode::internal) throw;
  }
  return 0;
}
