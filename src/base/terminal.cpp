#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/log.h"

namespace stretto {
namespace {

constexpr size_t kUsualWidth = 80, kLeastWidth = 40, kMostWidth = 100000;

size_t width_of_stream(int fd) {
  size_t width = 0;
  if (const char* set = std::getenv("COLUMNS"); set != nullptr) {
    const char* end = set + std::strlen(set);
    const auto [at, error] = std::from_chars(set, end, width);
    if (error != std::errc() || at != end) width = 0;
  }
  winsize size = {};
  if (width == 0 && ::ioctl(fd, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  return width == 0 ? kUsualWidth : std::clamp(width, kLeastWidth, kMostWidth);
}

}  // namespace

size_t output_width() { return width_of_stream(STDOUT_FILENO); }
size_t message_width() { return width_of_stream(STDERR_FILENO); }

bool steers_terminals(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c ||
         (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

std::string for_stdout(std::string_view text) {
  return stdout_is_terminal() ? printable_lines(text) : std::string(text);
}

}  // namespace stretto
