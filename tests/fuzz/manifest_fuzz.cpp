// Any bytes as a manifest, as they are and sealed with the right digest: parsed, or refused.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "checkpoint/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string sealed = "{\"digest\":\"" + stretto::digest_of(bytes).hex() +
                             "\",\n\"content\":" + std::string(bytes) + "}\n";
  for (const std::string_view text : {bytes, std::string_view(sealed)}) {
    try {
      stretto::parse_manifest(text, "fuzz");
    } catch (const stretto::Error& error) {
      if (error.code() == stretto::ExitCode::internal) throw;
    }
    try {
      stretto::parse_file_record(text, "fuzz");
    } catch (const stretto::Error& error) {
      if (error.code() == stretto::ExitCode::internal) throw;
    }
  }
  return 0;
}
