#include "data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/strict_json.h"
#include "base/utf8.h"
#include "data/plain_text.h"
#include "data/splitter.h"

namespace stretto {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;
// A line or a word may be longer than a block, but not longer than this.
constexpr size_t kMaxBlockBytes = size_t{64} << 20;

// Whether the first line is a complete JSON object.
bool begins_with_object(File& file) {
  const int64_t begin = text_begin(file);
  std::string line;
  while (line.find('\n') == std::string::npos && line.size() < kMaxBlockBytes) {
    const size_t had = line.size();
    line.resize(had + kBlockBytes);
    line.resize(had +
                file.read_at(line.data() + had, kBlockBytes, begin + static_cast<int64_t>(had)));
    if (line.size() == had) break;
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line[first] != '{') return false;
  }
  line.resize(std::min(line.find('\n'), line.size()));
  try {
    return parse_json(line, file.path()).is_object();
  } catch (const Error&) {
    return false;
  }
}

// Refuses a file that is one array of documents, as other programs export them: nobody wants to
// learn its brackets and quotes. An array of numbers may be a text to learn.
void refuse_array_of_documents(File& file) {
  if (!file.path().ends_with(".json")) return;
  std::array<char, 4096> bytes{};
  std::string_view begin(bytes.data(), file.read_at(bytes.data(), bytes.size(), text_begin(file)));
  const auto next = [&] {  // the next byte that is not blank
    begin.remove_prefix(std::min(begin.find_first_not_of(" \t\r\n"), begin.size()));
    const char c = begin.empty() ? '\0' : begin[0];
    begin.remove_prefix(begin.empty() ? 0 : 1);
    return c;
  };
  if (next() != '[') return;
  const char first = next();
  if (first != '{' && first != '"') return;
  throw Error(ExitCode::bad_data,
              fmt::format("{} is one JSON array; documents are read from JSON Lines", file.path()),
              fmt::format("write {}: jq -c '.[]{}' {} > NAME.jsonl; or call it .txt to take it as "
                          "it is",
                          first == '{' ? "each object on a line" : "each text on a line",
                          first == '{' ? "" : " | {text: .}", file.path()));
}

}  // namespace

bool named_json_lines(std::string_view path) {
  return path.ends_with(".jsonl") || path.ends_with(".ndjson");
}

CorpusReader::CorpusReader(CorpusOptions options, Fs& fs) : options_(std::move(options)), fs_(fs) {
  // Every file is opened once now, so that a wrong name fails at once, not after hours of work.
  for (const std::string& path : options_.paths) {
    const auto file = fs_.open(path);
    total_bytes_ += file->size();
    require_plain_text(*file);
    refuse_array_of_documents(*file);
    // A file named `.json` may be an ordinary text, or JSON Lines.
    const bool lines = named_json_lines(path);
    if (!lines && !begins_with_object(*file)) continue;
    if (lines || path.ends_with(".json")) {
      json_lines_.insert(path);
    } else {
      spdlog::warn(
          "{} is read as text but looks like JSON Lines; name it .jsonl to read its documents",
          printable(path));
    }
  }
  if (total_bytes_ == 0) refuse_as_empty();
  if (!options_.key.empty() && json_lines_.empty()) {
    throw Error(ExitCode::usage,
                fmt::format("--key {}: none of the files is JSON Lines", printable(options_.key)),
                "leave --key out for plain text, or call the files .jsonl");
  }
  if (options_.key.empty()) options_.key = "text";
}

void CorpusReader::refuse_as_empty() const {
  throw Error(ExitCode::bad_data, fmt::format("{}: no text", fmt::join(options_.paths, ", ")),
              "give at least one file that is not empty; --key names the text in JSON Lines");
}

// Where to end the block: after its last newline (lines), or where a piece ends (text). 0: read
// more.
size_t CorpusReader::cut(const std::string& path, std::string_view bytes, bool at_limit) const {
  if (is_jsonl(path) || options_.line_documents) {
    const size_t newline = bytes.rfind('\n');
    if (newline != std::string_view::npos) return newline + 1;
    if (!at_limit) return 0;
    throw Error(ExitCode::bad_data,
                fmt::format("{}:{}: a line longer than {} MiB", path, line_, kMaxBlockBytes >> 20),
                "split the document, or check that the file is JSON Lines");
  }
  const size_t safe = last_safe_cut(bytes, 1);
  if (safe != std::string_view::npos) return safe;
  return at_limit ? bytes.size() - incomplete_utf8_suffix(bytes) : 0;
}

bool CorpusReader::next(CorpusBlock& block) {
  const std::lock_guard lock(mutex_);
  while (file_index_ < options_.paths.size()) {
    const std::string& path = options_.paths[file_index_];
    if (!file_) {
      file_ = fs_.open(path);
      begin_ = text_begin(*file_);
      offset_ = begin_;
      line_ = 1;
    }
    std::string& bytes = block.bytes;
    bytes.clear();
    size_t end = 0;
    bool at_end = false;
    while (end == 0 && !at_end) {
      const size_t had = bytes.size(), wanted = std::max(kBlockBytes, had);  // twice as much
      bytes.resize(had + wanted);
      const size_t got =
          file_->read_at(bytes.data() + had, wanted, offset_ + static_cast<int64_t>(had));
      bytes.resize(had + got);
      at_end = got < wanted;
      if (!at_end) end = cut(path, bytes, bytes.size() >= kMaxBlockBytes);
    }
    if (!at_end) bytes.resize(end);
    block.begins_file = offset_ == begin_;
    offset_ += static_cast<int64_t>(bytes.size());
    block.path = path;
    block.first_line = line_;
    block.ends_file = at_end;
    line_ += std::count(bytes.begin(), bytes.end(), '\n');
    if (at_end) {
      file_.reset();
      ++file_index_;
    }
    // A file whose size is a multiple of the block size ends with an empty block, which must be
    // handed on because it ends the file.
    if (bytes.empty() && offset_ == begin_) continue;
    block.index = block_index_++;
    return true;
  }
  return false;
}

void CorpusReader::documents(const CorpusBlock& block,
                             const std::function<void(const Part&)>& part) const {
  const bool jsonl = is_jsonl(block.path);
  if (!jsonl && !options_.line_documents) {
    part({block.bytes, block.begins_file, block.ends_file});
    return;
  }
  const std::string_view bytes = block.bytes;
  std::string text;
  int64_t line_number = block.first_line;
  for (size_t begin = 0; begin < bytes.size(); ++line_number) {
    const size_t end = std::min(bytes.find('\n', begin), bytes.size());
    std::string_view line = bytes.substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (!jsonl) {
      part({line, true, true});
      continue;
    }
    const std::string place = fmt::format("{}:{}", block.path, line_number);
    if (!parse_json_text(line, options_.key, place, text)) {
      throw Error(ExitCode::bad_data,
                  fmt::format("{}: no key \"{}\" on the top level", place, printable(options_.key)),
                  "name the key of the text with --key");
    }
    if (!text.empty()) part({text, true, true});
  }
}

}  // namespace stretto
