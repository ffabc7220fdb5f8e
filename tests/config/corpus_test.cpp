// Replays the fuzzer's corpus without a fuzzer: no input may do anything but answer or throw Error.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "config/support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace stretto {
namespace {

TEST(ConfigCorpus, EveryInputIsAnswered) {
  namespace fs = std::filesystem;
  int seen = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(STRETTO_SOURCE_DIR) / "tests/fuzz/corpus/config")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NO_THROW(
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()))
        << entry.path();
    ++seen;
  }
  EXPECT_GE(seen, 10);
}

}  // namespace
}  // namespace stretto
