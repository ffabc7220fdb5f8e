// Messages for people go to stderr through here; data goes to stdout with fmt::print.
#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

namespace stretto {

enum class LogLevel { quiet, normal, verbose };

// Sets up the process-wide message log. Rank -1 means "not part of a job": no rank in the lines.
void init_log(LogLevel level, int rank = -1);

// Whether colour and self-updating lines should be used on this stream: a terminal, and NO_COLOR is
// not set.
bool stdout_is_terminal();
bool stderr_is_terminal();
bool use_colour(bool is_terminal);

// Text from files and users in a form that is safe for a terminal: control characters become \xNN.
std::string printable(std::string_view text);
// The same for a message of several lines, which keeps its line ends.
std::string printable_lines(std::string_view text);

}  // namespace stretto
