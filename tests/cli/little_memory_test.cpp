// Verbs that compute no product, where little memory may be had.
#include <gtest/gtest.h>

#include "support/shell.h"

namespace stretto::test {
namespace {

// OpenBLAS would not even start: it takes a buffer for every core, and asks again for ever.
TEST(LittleMemory, VerbsWithoutProductsDoNotLoadOpenBlas) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more addresses than this leaves";
#endif
  for (const char* words : {"version", "--help", "config check tiny-100k", "models",
                            "flops tiny-100k", "plan mpt-125m --gpus 8"}) {
    const ShellAnswer answer =
        shell(std::string("ulimit -v 300000; timeout 60 '" STRETTO_PROGRAM "' ") + words + " 2>&1");
    EXPECT_EQ(answer.code, 0) << words << "\n" << answer.out;
  }
  EXPECT_NE(shell("'" STRETTO_PROGRAM "' version").out.find("OpenBLAS"), std::string::npos);
}

}  // namespace
}  // namespace stretto::test
