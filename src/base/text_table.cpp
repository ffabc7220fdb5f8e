#include "base/text_table.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/wrap.h"

namespace stretto {
namespace {

constexpr size_t kGap = 2;           // between columns
constexpr size_t kLeastProse = 24;   // columns for text that is wrapped
constexpr size_t kBelowTheName = 4;  // indentation of cells below a first column that is too long

std::string ended(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
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

std::vector<std::string> TextTable::take_common() {
  std::vector<std::string> common;
  if (rows_.size() < 2) return common;
  for (size_t c = 1; c < headings_.size();) {
    const std::string value = rows_[0][c];
    const auto has_it = [&](const auto& row) { return row[c] == value; };
    if (!std::all_of(rows_.begin(), rows_.end(), has_it)) {
      ++c;
      continue;
    }
    common.push_back(headings_[c] + " " + value);
    const auto at = static_cast<std::ptrdiff_t>(c);
    headings_.erase(headings_.begin() + at);
    right_.erase(right_.begin() + at);
    for (auto& row : rows_) row.erase(row.begin() + at);
  }
  return common;
}

std::string TextTable::block(const std::vector<size_t>& columns, const Layout& layout) const {
  std::string out;
  const auto put = [&](const std::vector<std::string>& cells) {
    const auto padded = [&](size_t c, const std::string& cell) {
      const std::string space(layout.widths[c] - std::min(layout.widths[c], width_of(cell)), ' ');
      return right_[c] ? space + cell : cell + space;
    };
    std::string line = layout.indent + padded(0, cells[0]);
    size_t gap = kGap;
    if (layout.name_alone) {
      out += ended(line);
      line = layout.indent;
      gap = kBelowTheName;
    }
    for (const size_t c : columns) {
      line += std::string(gap, ' ');
      const size_t taken = width_of(line);
      line += is_prose(c) ? wrapped(cells[c], layout.width, taken, taken) : padded(c, cells[c]);
      gap = kGap;
    }
    out += ended(line);
  };
  put(headings_);
  for (const auto& row : rows_) put(row);
  return out;
}

std::string TextTable::text(size_t width, const std::string& indent) const {
  Layout layout{{}, indent, width};
  for (size_t c = 0; c < headings_.size(); ++c) {
    layout.widths.push_back(width_of(headings_[c]));
    for (const auto& row : rows_) layout.widths[c] = std::max(layout.widths[c], width_of(row[c]));
  }
  const size_t all = std::accumulate(layout.widths.begin(), layout.widths.end(), indent.size()) +
                     kGap * (headings_.size() - 1);
  const size_t begin = indent.size() + layout.widths[0];
  layout.name_alone = all > width && begin > width / 2;
  std::string out;
  std::vector<size_t> columns;
  size_t taken = 0;
  for (size_t c = 1; c < headings_.size(); ++c) {
    const size_t own = is_prose(c) ? std::min(layout.widths[c], kLeastProse) : layout.widths[c];
    if (!columns.empty() && taken + kGap + own > width) {
      out += block(columns, layout) + "\n";
      columns.clear();
    }
    if (columns.empty()) taken = layout.name_alone ? indent.size() + kBelowTheName - kGap : begin;
    columns.push_back(c);
    taken += kGap + own;
  }
  return out + block(columns, layout);
}

}  // namespace stretto
