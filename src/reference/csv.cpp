#include "reference/csv.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"

namespace stretto {
namespace {

constexpr size_t kMaxField = 64 << 10;
constexpr size_t kMaxColumns = 256;
constexpr const char* kHint = "correct the file, or restore it";

[[noreturn]] void refuse(std::string_view name, int64_t line, const std::string& what) {
  throw Error(ExitCode::bad_data, fmt::format("{}:{}: {}", name, line, what), kHint);
}

class Parser {
 public:
  Parser(std::string_view bytes, std::string_view name) : bytes_(bytes), name_(name) {
    if (bytes_.starts_with("\xef\xbb\xbf")) bytes_.remove_prefix(3);
    check_text();
  }

  bool done() const { return at_ >= bytes_.size(); }
  int64_t line() const { return line_; }

  std::vector<std::string> record() {
    std::vector<std::string> fields;
    while (true) {
      if (fields.size() == kMaxColumns) fail(fmt::format("more than {} columns", kMaxColumns));
      fields.push_back(field());
      if (done()) return fields;
      const char separator = bytes_[at_++];
      if (separator == ',') continue;
      if (separator == '\r' && !done() && bytes_[at_] == '\n') ++at_;
      ++line_;
      return fields;
    }
  }

  [[noreturn]] void fail(const std::string& what) const { refuse(name_, line_, what); }

 private:
  void check_text() const {
    int64_t line = 1;
    for (size_t i = 0; i < bytes_.size();) {
      const size_t length = bytes_[i] == '\0' ? 0 : decode_utf8(bytes_.substr(i)).bytes;
      if (length == 0) refuse(name_, line, "not UTF-8 text; is this a binary file?");
      if (bytes_[i] == '\n') ++line;
      i += length;
    }
  }

  void put(std::string& text, char c) const {
    if (text.size() == kMaxField) fail("a field is longer than 64 KiB");
    text += c;
  }

  std::string field() {
    std::string text;
    if (!done() && bytes_[at_] == '"') return quoted();
    while (!done() && bytes_[at_] != ',' && bytes_[at_] != '\n' && bytes_[at_] != '\r') {
      if (bytes_[at_] == '"') fail("a quote inside a field that does not begin with one");
      put(text, bytes_[at_++]);
    }
    return text;
  }

  std::string quoted() {
    std::string text;
    const int64_t opened = line_;
    for (++at_; !done(); ++at_) {
      const char c = bytes_[at_];
      if (c == '\n') ++line_;
      if (c != '"') {
        put(text, c);
      } else if (at_ + 1 < bytes_.size() && bytes_[at_ + 1] == '"') {
        put(text, bytes_[at_++]);
      } else {
        ++at_;
        const bool ends =
            done() || bytes_[at_] == ',' || bytes_[at_] == '\n' || bytes_[at_] == '\r';
        if (!ends) fail("text after a closing quote");
        return text;
      }
    }
    refuse(name_, opened, "a quote is opened here and never closed");
  }

  std::string_view bytes_;
  std::string_view name_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

void check_header(const Parser& parser, const std::vector<std::string>& header) {
  std::set<std::string> seen;
  for (const std::string& column : header) {
    if (column.empty()) parser.fail("a column without a name");
    if (!seen.insert(column).second) {
      parser.fail(fmt::format("two columns are called '{}'", printable(column)));
    }
  }
}

}  // namespace

std::optional<size_t> CsvTable::column(std::string_view wanted) const {
  const auto it = std::find(header.begin(), header.end(), wanted);
  if (it == header.end()) return std::nullopt;
  return static_cast<size_t>(it - header.begin());
}

CsvTable parse_csv(std::string_view bytes, std::string_view name) {
  Parser parser(bytes, name);
  if (parser.done()) refuse(name, 1, "the file is empty");
  CsvTable table{std::string(name), parser.record(), {}, {}};
  check_header(parser, table.header);
  while (!parser.done()) {
    const int64_t line = parser.line();
    auto fields = parser.record();
    if (fields.size() == 1 && fields[0].empty()) continue;  // blank line
    if (fields.size() != table.header.size()) {
      refuse(name, line,
             fmt::format("{} fields, but the header names {}", fields.size(), table.header.size()));
    }
    table.rows.push_back(std::move(fields));
    table.lines.push_back(line);
  }
  return table;
}

}  // namespace stretto
