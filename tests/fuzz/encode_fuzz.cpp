// Any bytes as text: both published patterns losslessly through the encoder, and NFC is stable.
#include "base/utf8.h"
#include "data/encoder.h"
#include "data/unicode.h"
#include "fuzz/fuzz_support.h"

namespace {

stretto::Tokenizer small_tokenizer(const char* pattern) {
  stretto::TokenizerSpec spec = stretto::byte_tokenizer().spec();
  spec.split = true;
  spec.pattern = pattern;
  spec.tokens.emplace_back("ab");
  spec.merges.push_back({'a', 'b', 256});
  return {std::move(spec), "fuzz"};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  static const Tokenizer tokenizers[] = {small_tokenizer(kGpt2Pattern),
                                         small_tokenizer(kLlama3Pattern)};
  static Encoder encoders[] = {Encoder(tokenizers[0]), Encoder(tokenizers[1])};
  const std::string_view text = fuzz_bytes(data, size);
  for (Encoder& encoder : encoders) {
    std::vector<int32_t> ids;
    encoder.encode(text, ids);
    STRETTO_CHECK(tokenizers[0].decode(ids) == text);
  }
  const std::string once = normalize_nfc(text.substr(0, valid_utf8_prefix(text)));
  STRETTO_CHECK(normalize_nfc(once) == once);
  return 0;
}
