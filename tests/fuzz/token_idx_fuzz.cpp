// Any bytes as a Megatron index, over a .bin whose size the first byte gives.
#include <vector>

#include "data/token_source.h"
#include "fuzz/bytes_fs.h"
#include "fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  if (size == 0) return 0;
  const std::string_view bytes = fuzz_bytes(data, size);
  BytesFs fs({{"c.idx", std::string(bytes.substr(1))}, {"c.bin", std::string(data[0], '\1')}});
  accept_refusal([&] {
    const auto source = open_tokens("c.idx", TokenFormat::detect, fs);
    std::vector<int32_t> ids(static_cast<size_t>(source->tokens()));
    source->read(0, ids);
    for (int64_t i = 0; i < source->documents(); ++i) {
      const int64_t begin = source->document_begin(i), end = source->document_begin(i + 1);
      STRETTO_CHECK(0 <= begin && begin <= end && end <= source->tokens(), "{} {}", begin, end);
    }
  });
  return 0;
}
