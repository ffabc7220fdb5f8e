// Tables for people: columns as wide as necessary, numbers aligned to the right.
#pragma once

#include <string>
#include <vector>

namespace stretto::cli {

class TextTable {
 public:
  // A heading that begins with '>' makes its column right-aligned (the sign is not printed).
  explicit TextTable(std::vector<std::string> headings);

  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string text(const std::string& indent = "") const;  // lines, each ended

 private:
  std::vector<std::string> headings_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stretto::cli
