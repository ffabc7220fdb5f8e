// Any bytes as text: every split pattern, by hand and by PCRE2, and losslessly through the encoder.
#include "data/encoder.h"
#include "data/unicode.h"
#include "fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  const std::string_view text = fuzz_bytes(data, size);
  for (const char* pattern : {kGpt2Pattern, kLlama3Pattern}) {
    TokenizerSpec spec = byte_tokenizer().spec();
    spec.split = true;
    spec.pattern = pattern;
    spec.tokens.emplace_back("ab");
    spec.merges.push_back({'a', 'b', 256});
    const Tokenizer tokenizer(std::move(spec), "fuzz");
    std::vector<int32_t> ids;
    Encoder(tokenizer).encode(text, ids);
    STRETTO_CHECK(tokenizer.decode(ids) == text);
  }
  const std::string_view valid = text.substr(0, valid_utf8_prefix(text));
  const std::string once = normalize_nfc(valid);
  STRETTO_CHECK(normalize_nfc(once) == once);
  return 0;
}
