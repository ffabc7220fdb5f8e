#include "bench/safe_text.h"

#include <algorithm>
#include <charconv>

#include "base/terminal.h"
#include "base/utf8.h"

namespace stretto {
namespace {

bool is_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// The position after an escape sequence that begins at `at`: CSI ... final byte, OSC ... BEL or ST,
// or two bytes.
size_t skip_escape(std::string_view text, size_t at) {
  if (at + 1 >= text.size()) return text.size();
  const char kind = text[at + 1];
  size_t i = at + 2;
  if (kind == '[') {
    while (i < text.size() && !(text[i] >= '@' && text[i] <= '~')) ++i;
    return std::min(text.size(), i + 1);
  }
  if (kind == ']' || kind == 'P' || kind == '_' || kind == '^') {
    while (i < text.size() && text[i] != '\a' && text[i] != '\x1b') ++i;
    if (i < text.size() && text[i] == '\x1b') ++i;
    return std::min(text.size(), i + 1);
  }
  return i;
}

}  // namespace

std::string without_control(std::string_view text, bool keep_lines) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == 0x1b) {
      i = skip_escape(text, i);
      continue;
    }
    const auto [code, bytes] = decode_utf8(text.substr(i));
    if (c == '\n' || c == '\t') {
      out += keep_lines ? text[i] : ' ';
    } else if (bytes == 0 || !steers_terminals(code)) {
      out += text.substr(i, std::max<size_t>(bytes, 1));
    }
    i += std::max<size_t>(bytes, 1);
  }
  return out;
}

std::string one_line(std::string_view text, size_t most) {
  std::string out;
  for (const char c : without_control(text)) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  if (out.size() <= most) return out;
  size_t end = most - 3;
  // Do not cut a character.
  while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xc0) == 0x80) --end;
  return out.substr(0, end) + "...";
}

std::string csv_field(std::string_view text) {
  std::string field = without_control(text);
  const size_t first = field.find_first_not_of(' ');
  const bool formula = first != std::string::npos &&
                       std::string_view("=+-@").find(field[first]) != std::string_view::npos;
  if (formula && !is_number(field)) field.insert(0, "'");
  if (field.find_first_of(",\"'") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char c : field) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string markdown_cell(std::string_view text) {
  std::string out;
  for (const char c : without_control(text)) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      if (std::string_view("|`[]\\").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string markup_text(std::string_view text) {
  std::string out;
  for (const char c : without_control(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace stretto
