// Messages hold texts of files and users: none of them steers the terminal.
#include "base/log.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(Log, ControlCharactersAreShownNotObeyed) {
  EXPECT_EQ(printable("a\x1b[31m\tb\r\n\x7f"), "a\\x1b[31m\tb\\x0d\\x0a\\x7f");
  EXPECT_EQ(printable_lines("a\x1b[31m\tb\r\nc"), "a\\x1b[31m\tb\\x0d\nc");
  // C1, as UTF-8 spells them: U+009B begins a sequence as ESC [ does; U+00A0 is a space.
  EXPECT_EQ(printable("a\xc2\x9b"
                      "31m\xc2\xa0\xc3\x9b\xc2"),
            "a\\x9b31m\xc2\xa0\xc3\x9b\\xc2");
  // A lone C1 byte, which terminals without UTF-8 obey, and characters that reorder a line.
  EXPECT_EQ(printable("\x9b"
                      "31m \u202egnp.exe\u2069 \u2028"),
            "\\x9b31m \\u202egnp.exe\\u2069 \\u2028");
  init_log(LogLevel::normal);
  testing::internal::CaptureStderr();
  spdlog::warn("{}: no tokenizer\n  ünï", "\x1b]0;title\x07");
  spdlog::default_logger()->flush();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: \\x1b]0;title\\x07: no tokenizer\n  ünï\n");
}

}  // namespace
}  // namespace stretto
