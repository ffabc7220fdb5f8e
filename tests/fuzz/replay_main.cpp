// Runs a fuzz target over its corpus, without libFuzzer: what was found once stays found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

TEST(FuzzCorpus, STRETTO_FUZZ_NAME) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(STRETTO_FUZZ_CORPUS)) {
    paths.push_back(entry.path());
  }
  ASSERT_FALSE(paths.empty()) << STRETTO_FUZZ_CORPUS;
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    SCOPED_TRACE(path.filename().string());
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
    EXPECT_NO_THROW(
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  }
}

}  // namespace
