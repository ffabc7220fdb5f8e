#include "cli/text_table.h"

#include <algorithm>

#include "base/error.h"

namespace stretto::cli {
namespace {

// Counts code points, not bytes: continuation bytes take no column.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

TextTable::TextTable(std::vector<std::string> headings) : headings_(std::move(headings)) {
  for (std::string& heading : headings_) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
}

void TextTable::add(std::vector<std::string> cells) {
  STRETTO_CHECK(cells.size() == headings_.size(), "{} cells, {} headings", cells.size(),
                headings_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text(const std::string& indent) const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < headings_.size(); ++c) {
    widths.push_back(width_of(headings_[c]));
    for (const auto& row : rows_) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string out;
  const auto put = [&](const std::vector<std::string>& cells) {
    std::string line = indent;
    for (size_t c = 0; c < cells.size(); ++c) {
      const std::string space(widths[c] - width_of(cells[c]), ' ');
      line += (c == 0 ? "" : "  ") + (right_[c] ? space + cells[c] : cells[c] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  put(headings_);
  for (const auto& row : rows_) put(row);
  return out;
}

}  // namespace stretto::cli
