#include "base/wrap.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/utf8.h"

namespace stretto {
namespace {

// East Asian wide and emoji blocks, as far as names are likely to have them.
bool is_wide(uint32_t code) {
  constexpr uint32_t kBlocks[][2] = {{0x1100, 0x115f},   {0x2e80, 0x303e},  {0x3041, 0xa4cf},
                                     {0xac00, 0xd7a3},   {0xf900, 0xfaff},  {0xfe30, 0xfe6f},
                                     {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f},
                                     {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks),
                     [&](const auto& block) { return code >= block[0] && code <= block[1]; });
}

bool is_combining(uint32_t code) {
  return (code >= 0x300 && code <= 0x36f) || (code >= 0x200b && code <= 0x200d) ||
         (code >= 0xfe00 && code <= 0xfe0f);
}

// Bytes of a colour code at the start of `text`.
size_t colour_code(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const size_t end = text.find('m');
  return end == std::string_view::npos ? 0 : end + 1;
}

struct Word {
  size_t space = 0;  // in front of it
  std::string_view text;
};

std::vector<Word> words_of(std::string_view line) {
  std::vector<Word> words;
  for (size_t at = 0; at < line.size();) {
    const size_t begin = std::min(line.find_first_not_of(' ', at), line.size());
    const size_t end = std::min(line.find(' ', begin), line.size());
    if (end > begin) words.push_back({begin - at, line.substr(begin, end - begin)});
    at = end;
  }
  return words;
}

bool is_figure(std::string_view word) {
  if (!word.empty() && std::string_view("(+-~").find(word.front()) != word.npos) {
    word.remove_prefix(1);
  }
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) &&
         word.find_first_not_of("0123456789.,+-kMGT") == word.npos;
}

// Whether no line may end between these words: "54.4 ms", "62.8 %".
bool belongs_to(std::string_view figure, const Word& unit) {
  return unit.space == 1 && is_figure(figure) &&
         (std::isalpha(static_cast<unsigned char>(unit.text.front())) || unit.text.front() == '%');
}

// The column of the text that goes on below itself when the line is wrapped.
size_t hanging_of(std::string_view line, size_t width, size_t hanging) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  constexpr size_t kLeastText = 20;  // columns for the text
  size_t column = 0, text = 0;
  for (const Word& word : words_of(line)) {
    column += word.space;
    if (column + kLeastText > width) break;
    if (column > indent && word.space >= 2) text = column;
    column += width_of(word.text);
  }
  constexpr size_t kDeep = 8;  // such a line is itself the text of a column
  if (text > 0) return text;
  return indent == 0 ? hanging : indent >= kDeep ? indent : indent + 4;
}

}  // namespace

size_t width_of(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    if (const size_t code = colour_code(text); code > 0) {
      text.remove_prefix(code);
      continue;
    }
    const auto [code, bytes] = decode_utf8(text);
    width += bytes == 0 ? 1 : is_wide(code) ? 2 : is_combining(code) ? 0 : 1;
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return width;
}

std::string wrapped(std::string_view line, size_t width, size_t hanging, size_t taken) {
  std::string out;
  size_t column = taken;
  bool first = true;  // of its line
  const std::vector<Word> words = words_of(line);
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t own = width_of(words[i].text);
    size_t needed = own;
    if (i + 1 < words.size() && belongs_to(words[i].text, words[i + 1])) {
      needed += 1 + width_of(words[i + 1].text);
      if (hanging + needed > width) needed = own;  // no line holds both
    }
    if (!first && column + words[i].space + needed > width) {
      out += '\n' + std::string(hanging, ' ');
      column = hanging;
    } else {
      out += std::string(words[i].space, ' ');
      column += words[i].space;
    }
    out += words[i].text;
    column += own;
    first = false;
  }
  return out;
}

std::string fit_page(std::string_view page, size_t width, size_t hanging) {
  std::string out;
  while (!page.empty()) {
    const size_t end = page.find('\n');
    const std::string_view line = page.substr(0, end);
    out += width_of(line) <= width ? std::string(line)
                                   : wrapped(line, width, hanging_of(line, width, hanging));
    if (end == page.npos) break;
    out += '\n';
    page.remove_prefix(end + 1);
  }
  return out;
}

std::string wrapped_command(std::string_view command, size_t width, size_t indent) {
  std::string out = wrapped(std::string(indent, ' ').append(command), width - 2, indent + 4);
  for (size_t at = out.find('\n'); at != out.npos; at = out.find('\n', at + 3)) {
    out.insert(at, " \\");
  }
  return out;
}

}  // namespace stretto
