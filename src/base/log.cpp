#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

namespace stretto {
namespace {

std::string without_controls(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    if ((byte < 0x20 && kept.find(text[i]) == std::string_view::npos) || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
      // C1 control characters, which some terminals obey.
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      out += fmt::format("\\x{:02x}", next);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

// The text of a line, safe for a terminal: `%*` in the pattern.
class SafeText : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = printable_lines({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<SafeText>();
  }
};

}  // namespace

void init_log(LogLevel level, int rank) {
  auto logger = spdlog::get("stretto");
  if (!logger) {
    logger = use_colour(stderr_is_terminal()) ? spdlog::stderr_color_mt("stretto")
                                              : spdlog::stderr_logger_mt("stretto");
    spdlog::set_default_logger(logger);
  }
  const std::string who = rank >= 0 ? fmt::format("[rank {}] ", rank) : "";
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<SafeText>('*').set_pattern(who + "%^%l%$: %*");
  logger->set_formatter(std::move(formatter));
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

std::string printable(std::string_view text) { return without_controls(text, "\t"); }
std::string printable_lines(std::string_view text) { return without_controls(text, "\t\n"); }

}  // namespace stretto
