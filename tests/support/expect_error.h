// EXPECT_ERROR(statement, ExitCode::bad_data, "part of the message"): throws Error with that code,
// a message that contains the part, and a hint that is not empty.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

#define EXPECT_ERROR(statement, expected_code, part)                                              \
  do {                                                                                            \
    bool thrown = false;                                                                          \
    try {                                                                                         \
      statement;                                                                                  \
    } catch (const ::stretto::Error& error) {                                                     \
      thrown = true;                                                                              \
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(expected_code)) << error.what(); \
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();         \
      EXPECT_FALSE(error.hint().empty()) << error.what();                                         \
    }                                                                                             \
    EXPECT_TRUE(thrown) << #statement;                                                            \
  } while (false)
