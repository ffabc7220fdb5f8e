#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/terminal.h"
#include "base/utf8.h"
#include "base/wrap.h"

namespace stretto {
namespace {

std::string without_controls(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [code, bytes] = decode_utf8(text);
    if (bytes == 0) {  // terminals that do not expect UTF-8 may obey a lone C1 byte
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else if (!steers_terminals(code) || (bytes == 1 && kept.find(text.front()) != kept.npos)) {
      out += text.substr(0, bytes);
    } else {
      out += code < 0x100 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out;
}

// The text of a message, safe for a terminal and on one also wrapped: `%*` in the pattern.
class SafeText : public spdlog::custom_flag_formatter {
 public:
  explicit SafeText(size_t who) : who_(who) {}
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    std::string text = printable_lines({message.payload.data(), message.payload.size()});
    if (stderr_is_terminal()) {
      const size_t level = spdlog::level::to_string_view(message.level).size();
      const std::string front(who_ + level + 2, 'x');
      text = fit_page(front + text, message_width()).substr(front.size());
    }
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<SafeText>(who_);
  }

 private:
  size_t who_;  // columns in front of the level
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
  formatter->add_flag<SafeText>('*', who.size()).set_pattern(who + "%^%l%$: %*");
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
