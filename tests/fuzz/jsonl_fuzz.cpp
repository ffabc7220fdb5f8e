// Any bytes as a line of JSON Lines, and as JSON of ours.
#include <nlohmann/json.hpp>

#include "base/strict_json.h"
#include "fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  const std::string_view bytes = fuzz_bytes(data, size);
  accept_refusal([&] {
    std::string text;
    const bool found = parse_json_text(bytes, "text", "fuzz", text);
    // What one reader accepts, the other reads the same.
    const nlohmann::json all = parse_json(bytes, "fuzz");
    STRETTO_CHECK(all.contains("text") == found);
    STRETTO_CHECK(!found || all.at("text").get<std::string>() == text);
  });
  accept_refusal([&] { parse_json(bytes, "fuzz"); });
  return 0;
}
