// Any bytes as a Hugging Face model: config.json, index and weights. Imported whole, or refused.
#include "checkpoint/store.h"
#include "fuzz/fuzz_support.h"
#include "hf/exchange.h"
#include "support/memory_fs.h"

// The first two pairs of bytes are the lengths of config.json and of the index (0: there is none).
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  if (size < 4) return 0;
  std::string_view rest = fuzz_bytes(data + 4, size - 4);
  const auto take = [&](size_t at) {
    const size_t length = std::min<size_t>(rest.size(), data[at] | data[at + 1] << 8);
    const std::string part(rest.substr(0, length));
    rest.remove_prefix(length);
    return part;
  };
  const std::string config = take(0), index = take(2);
  test::MemoryFs fs;
  fs.make_dir("/hf");
  const auto write = [&](const std::string& name, std::string_view content) {
    fs.create("/hf/" + name)->append(content);
  };
  write("config.json", config);
  if (!index.empty()) write("model.safetensors.index.json", index);
  write("model.safetensors", rest);
  accept_refusal([&] {
    import_hf(fs, "/hf", "/run");
    checkpoint_at(fs, "/run");
  });
  return 0;
}
