// Any bytes as a token file without an index.
#include <vector>

#include "data/token_source.h"
#include "fuzz/bytes_fs.h"
#include "fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  BytesFs fs({{"c.bin", std::string(fuzz_bytes(data, size))}});
  for (const TokenFormat format : {TokenFormat::llmc, TokenFormat::u16, TokenFormat::bytes}) {
    accept_refusal([&] {
      const auto source = open_tokens("c.bin", format, fs);
      std::vector<int32_t> ids(static_cast<size_t>(source->tokens()));
      source->read(0, ids);
    });
  }
  return 0;
}
