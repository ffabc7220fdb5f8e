// Any bytes as a tokenizer.json. One that is accepted must encode losslessly and survive saving.
#include "data/encoder.h"
#include "fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  accept_refusal([&] {
    const Tokenizer tokenizer = tokenizer_from_json(fuzz_bytes(data, size), "fuzz");
    const std::string text = "It's a naïve test, 123\n\n \xff\xfe <|endoftext|>";
    std::vector<int32_t> ids;
    Encoder(tokenizer).encode_ordinary(text, ids);
    const TokenizerSpec& spec = tokenizer.spec();
    const bool exact = !spec.nfc && !spec.prefix_space;
    STRETTO_CHECK(!exact || tokenizer.decode(ids) == text);
    tokenizer_from_json(tokenizer_to_json(tokenizer), "again");
  });
  return 0;
}
