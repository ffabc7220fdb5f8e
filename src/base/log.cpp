#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <cstdlib>

namespace stretto {

void init_log(LogLevel level, int rank) {
  auto logger = spdlog::get("stretto");
  if (!logger) {
    logger = use_colour(stderr_is_terminal()) ? spdlog::stderr_color_mt("stretto")
                                              : spdlog::stderr_logger_mt("stretto");
    spdlog::set_default_logger(logger);
  }
  const std::string who = rank >= 0 ? fmt::format("[rank {}] ", rank) : "";
  logger->set_pattern(who + "%^%l%$: %v");
  logger->set_level(level == LogLevel::quiet     ? spdlog::level::warn
                    : level == LogLevel::verbose ? spdlog::level::debug
                                                 : spdlog::level::info);
}

bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

bool use_colour(bool is_terminal) {
  const char* no_color = std::getenv("NO_COLOR");
  return is_terminal && (no_color == nullptr || *no_color == '\0');
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace stretto
