// Replays the fuzzers' corpora: no input may do anything but answer or throw Error.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#define LLVMFuzzerTestOneInput safetensors_fuzz_c
#include "fuzz/safetensors_fuzz.cpp"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput manifest_fuzz_c
#include "fuzz/manifest_fuzz.cpp"
#undef LLVMFuzzerTestOneInput

namespace {

void replay(const char* name, int (*target)(const uint8_t*, size_t)) {
  namespace fs = std::filesystem;
  int seen = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(STRETTO_SOURCE_DIR) / "tests/fuzz/corpus" / name)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NO_THROW(target(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()))
        << entry.path();
    ++seen;
  }
  EXPECT_GE(seen, 4);
}

TEST(CheckpointCorpus, Safetensors) { replay("safetensors", safetensors_fuzz_c); }
TEST(CheckpointCorpus, Manifest) { replay("manifest", manifest_fuzz_c); }

}  // namespace
