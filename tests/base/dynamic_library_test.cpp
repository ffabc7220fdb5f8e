#include "base/dynamic_library.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(DynamicLibrary, FindsWhatIsThere) {
  DynamicLibrary library("libm.so.6");
  double (*root)(double) = nullptr;
  library.find(root, "sqrt");
  EXPECT_EQ(library.why_unusable(), "");
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(root(9), 3);
}

TEST(DynamicLibrary, SaysWhatIsMissing) {
  DynamicLibrary library("libm.so.6");
  void (*first)() = nullptr;
  void (*second)() = nullptr;
  library.find(first, "stretto_has_no_such_function");
  library.find(second, "nor_this_one");
  EXPECT_EQ(first, nullptr);
  EXPECT_EQ(library.why_unusable(), "libm.so.6 has no stretto_has_no_such_function: too old");
}

TEST(DynamicLibrary, SaysWhyItCannotBeOpened) {
  DynamicLibrary library("libstretto-that-is-not-there.so");
  void (*function)() = [] {};
  library.find(function, "any");
  EXPECT_EQ(function, nullptr);
  EXPECT_NE(library.why_unusable().find("libstretto-that-is-not-there.so"), std::string::npos);
}

}  // namespace
}  // namespace stretto
