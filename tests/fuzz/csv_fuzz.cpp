// Any bytes as a published table: parsed, typed, recomputed, or refused with an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "reference/check.h"
#include "reference/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"mpt.csv", "bloom.csv"}) {
    try {
      stretto::check_reference(stretto::reference_rows(stretto::parse_csv(bytes, name)));
    } catch (const stretto::Error& error) {
      if (error.code() == stretto::ExitCode::internal) throw;  // refusing is an answer, this is not
    }
  }
  return 0;
}
