// Tables for people: columns as wide as necessary, numbers aligned to the right.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stretto {

class TextTable {
 public:
  // A heading that begins with '>' makes its column right-aligned (the sign is not printed).
  explicit TextTable(std::vector<std::string> headings);

  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Columns other than the first whose cells are all the same, as "heading value", are removed:
  // what many rows have in common is said once, above the table. Leaves a table of one row alone.
  std::vector<std::string> take_common();

  // Lines of at most `width` columns, each ended. A last column of text is wrapped. Columns that do
  // not fit beside the others stand in further tables below, each with the first column again. A
  // first column that takes more than half of the width has lines of its own.
  std::string text(size_t width, const std::string& indent = "") const;

 private:
  struct Layout {
    std::vector<size_t> widths;  // of columns
    std::string indent;
    size_t width;
    bool name_alone = false;  // the first column has lines of its own
  };
  bool is_prose(size_t column) const { return column + 1 == right_.size() && !right_[column]; }
  std::string block(const std::vector<size_t>& columns, const Layout& layout) const;

  std::vector<std::string> headings_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stretto
