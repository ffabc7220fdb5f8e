// What the configuration tests share: catching an Error, and looking into its text.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/reader.h"
#include "support/temp_dir.h"

namespace stretto::test {

// The Error that `body` throws; the test fails when it throws none.
template <class Body>
Error error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ExitCode::ok, "nothing was thrown");
}

inline Error load_error(const std::string& text) {
  return error_of([&] { load_config_text(text, "my.yaml"); });
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#define EXPECT_CONTAINS(text, part) \
  EXPECT_TRUE(::stretto::test::contains(text, part)) << "text: " << (text) << "\nwanted: " << (part)

using ::stretto::TempDir;

}  // namespace stretto::test
