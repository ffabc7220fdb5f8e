#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "backend/cuda/tune_cache.h"
#include "base/error.h"
#include "base/log.h"
#include "support/temp_dir.h"

namespace stretto::test {
namespace {

using cuda::TuneCache;

TEST(TuneCache, RemembersAcrossRuns) {
  const TempDir dir;
  const std::string path = std::filesystem::path(dir.path()) / "new" / "cache.txt";
  {
    TuneCache cache(path, "unused");
    EXPECT_FALSE(cache.find("768x1024"));
    EXPECT_EQ(cache.settle("768x1024", "1 2"), "1 2");
    EXPECT_EQ(cache.settle("768x1024", "3 4", "1 2"), "3 4");
    EXPECT_EQ(cache.settle("other", "5"), "5");
  }
  const TuneCache again(path, "unused");
  EXPECT_EQ(again.find("768x1024"), "3 4");
  EXPECT_EQ(again.find("other"), "5");
}

// Ranks that time the same product at the same time agree: the first to store it decides.
TEST(TuneCache, TheFirstOfTwoRanksDecides) {
  const TempDir dir;
  const std::string path = std::filesystem::path(dir.path()) / "cache.txt";
  TuneCache one(path, "unused"), other(path, "unused");
  EXPECT_EQ(one.settle("768x1024", "1 2"), "1 2");
  EXPECT_EQ(other.settle("768x1024", "3 4"), "1 2");
  EXPECT_EQ(other.find("768x1024"), "1 2");
  EXPECT_EQ(other.settle("768x1024", "5 6", "1 2"), "5 6");  // it looked at "1 2" and refuses it
  EXPECT_EQ(TuneCache(path, "unused").find("768x1024"), "5 6");
}

// Also where the slower one has heard of the first one's value by then, through another key: that
// is how the ways around a product are timed, after the product itself.
TEST(TuneCache, TheFirstDecidesWhateverWasStoredInBetween) {
  const TempDir dir;
  const std::string path = std::filesystem::path(dir.path()) / "cache.txt";
  TuneCache one(path, "unused"), other(path, "unused");
  EXPECT_EQ(one.settle("choice", "0"), "0");
  EXPECT_EQ(other.settle("product", "7"), "7");
  EXPECT_EQ(other.settle("choice", "1"), "0");
  EXPECT_EQ(TuneCache(path, "unused").find("choice"), "0");
}

TEST(TuneCache, ReplacesWhateverIsThere) {
  const TempDir dir;
  const std::string path = std::filesystem::path(dir.path()) / "new" / "cache.txt";
  TuneCache one(path, "unused"), other(path, "unused");
  EXPECT_EQ(one.settle("768x1024", "1 2"), "1 2");
  other.replace("768x1024", "3 4");
  other.replace("new", "5");
  EXPECT_EQ(other.find("768x1024"), "3 4");
  const TuneCache again(path, "unused");
  EXPECT_EQ(again.find("768x1024"), "3 4");
  EXPECT_EQ(again.find("new"), "5");
}

// What was asked for by name must not be lost without a word.
TEST(TuneCache, SaysSoWhereItCannotReplace) {
  const TempDir dir;
  const std::string file = std::filesystem::path(dir.path()) / "file";
  std::ofstream(file) << "a file, not a folder";
  TuneCache cache(file + "/cache.txt", "unused");
  EXPECT_EQ(cache.settle("key", "1"), "1");  // costs the memory only
  try {
    cache.replace("key", "2");
    FAIL() << "replaced in a file that cannot be";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::io_error);
    EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
  }
}

// Asked before minutes of measuring.
TEST(TuneCache, SaysBeforehandWhetherItCanReplace) {
  const TempDir dir;
  const std::string file = std::filesystem::path(dir.path()) / "file";
  std::ofstream(file) << "a file, not a folder";
  try {
    TuneCache(file + "/cache.txt", "unused").require_writable();
    FAIL() << "could not write";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::io_error);
    EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
    EXPECT_NE(error.hint().find("XDG_CACHE_HOME"), std::string::npos) << error.hint();
  }
  const std::string path = std::filesystem::path(dir.path()) / "new" / "cache.txt";
  TuneCache cache(path, "unused");
  EXPECT_NO_THROW(cache.require_writable());
  cache.replace("key", "1");
  EXPECT_NO_THROW(TuneCache(path, "unused").require_writable());
  EXPECT_EQ(TuneCache(path, "unused").find("key"), "1");
}

// A killed run leaves half a line; another program's file has none of ours.
TEST(TuneCache, IgnoresTornAndForeignLines) {
  const TempDir dir;
  const std::string path = std::filesystem::path(dir.path()) / "cache.txt";
  std::ofstream(path) << "whole\t1 .\nno tab here .\ntorn\t12345";
  TuneCache cache(path, "unused");
  EXPECT_EQ(cache.find("whole"), "1");
  EXPECT_FALSE(cache.find("torn"));
  EXPECT_FALSE(cache.find("no tab here"));
  EXPECT_EQ(cache.settle("next", "7"), "7");  // does not continue the torn line
  const TuneCache again(path, "unused");
  EXPECT_EQ(again.find("next"), "7");
  EXPECT_EQ(again.find("whole"), "1");
  EXPECT_FALSE(again.find("torn"));
}

// Lines of the message log, while this object lives.
class LogLines {
 public:
  LogLines() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "captured", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
    spdlog::set_pattern("%l: %v");
  }
  ~LogLines() { spdlog::set_default_logger(before_); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  std::string text() const { return text_.str(); }
  int64_t warnings() const {
    const std::string all = text_.str();
    int64_t count = 0;
    for (size_t at = 0; (at = all.find("warning: ", at)) != std::string::npos; ++at) ++count;
    return count;
  }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

// It costs the memory only, but with it that two runs choose alike, which must not go unsaid.
TEST(TuneCache, AFileThatCannotBeWrittenCostsNothing) {
  const std::string path = "/proc/no/such/folder/cache.txt";
  const LogLines log;
  TuneCache cache(path, "unused"), of_another_rank(path, "unused");
  EXPECT_EQ(cache.settle("a", "b"), "b");
  EXPECT_EQ(cache.find("a"), "b");
  EXPECT_EQ(cache.settle("c", "d"), "d");
  EXPECT_EQ(of_another_rank.settle("a", "e"), "e");
  EXPECT_EQ(log.warnings(), 1) << log.text();
  for (const char* word : {path.c_str(), "XDG_CACHE_HOME", "repeatable"}) {
    EXPECT_NE(log.text().find(word), std::string::npos) << word << ": " << log.text();
  }
}

TEST(TuneCache, AFileThatIsWrittenIsNoNews) {
  const TempDir dir;
  const LogLines log;
  TuneCache cache(std::filesystem::path(dir.path()) / "cache.txt", "unused");
  EXPECT_EQ(cache.settle("a", "b"), "b");
  EXPECT_EQ(log.text(), "");
}

}  // namespace
}  // namespace stretto::test
