// Text files and JSON Lines as a stream of blocks, for programs that read corpora larger than
// memory with several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/fs.h"

namespace stretto {

bool named_json_lines(std::string_view path);

struct CorpusOptions {
  std::vector<std::string> paths;
  std::string key = "";         // of the text in JSON Lines; empty: "text"
  bool line_documents = false;  // plain text: each line is a document, else each file
};

// A stretch of one file: whole lines of JSON Lines, or text that ends where a token would end
// anyway.
struct CorpusBlock {
  int64_t index = 0;  // number of the block in the corpus
  std::string path;
  int64_t first_line = 0;  // from 1
  std::string bytes;
  bool begins_file = false;
  bool ends_file = false;
};

class CorpusReader {
 public:
  explicit CorpusReader(CorpusOptions options, Fs& fs = posix_fs());

  // The next block, or false at the end. Thread-safe.
  bool next(CorpusBlock& block);
  int64_t total_bytes() const { return total_bytes_; }
  [[noreturn]] void refuse_as_empty() const;  // for callers that find no text in the corpus
  // Calls `part` for each document, or part of a document, in the block. Errors name file and line.
  struct Part {
    std::string_view text;
    bool begins, ends;  // a document
  };
  void documents(const CorpusBlock& block, const std::function<void(const Part&)>& part) const;

 private:
  bool is_jsonl(const std::string& path) const { return json_lines_.count(path) > 0; }
  size_t cut(const std::string& path, std::string_view bytes, bool at_limit) const;

  CorpusOptions options_;
  std::set<std::string> json_lines_;  // those of the paths
  Fs& fs_;
  int64_t total_bytes_ = 0;
  std::mutex mutex_;
  size_t file_index_ = 0;
  std::unique_ptr<File> file_;
  int64_t begin_ = 0;  // of the text in the file
  int64_t offset_ = 0;
  int64_t line_ = 1;
  int64_t block_index_ = 0;
};

}  // namespace stretto
