// Any bytes as a merges.txt, over a small vocabulary; then as a vocab.json.
#include "data/tokenizer.h"
#include "fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  static const std::string vocab = [] {
    std::string text = vocab_to_json(byte_tokenizer());
    text.pop_back();  // the closing brace
    return text + R"(,"ab":256,"abc":257,"bc":258,"Ġa":259})";
  }();
  const std::string_view bytes = fuzz_bytes(data, size);
  accept_refusal([&] { tokenizer_from_vocab(vocab, bytes, "fuzz"); });
  accept_refusal([&] { tokenizer_from_vocab(bytes, "a b\nab c\n", "fuzz"); });
  return 0;
}
