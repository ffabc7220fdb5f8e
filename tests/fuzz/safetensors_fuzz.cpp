// Any bytes as a safetensors file: parsed, or refused with an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "checkpoint/runs.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const stretto::Safetensors file =
        stretto::parse_safetensors(bytes, static_cast<int64_t>(size), "fuzz");
    for (const stretto::StTensor& tensor : file.tensors) {
      if (tensor.end > static_cast<int64_t>(size)) __builtin_trap();
    }
    for (const auto& [name, text] : file.metadata) stretto::parse_placement(text, name);
  } catch (const stretto::Error& error) {
    if (error.code() == stretto::ExitCode::internal) throw;  // refusing is an answer, this is not
  }
  return 0;
}
