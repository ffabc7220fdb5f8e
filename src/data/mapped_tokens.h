// Tokens of one width at an offset of a mapped file: what all formats have in common.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "data/token_file.h"

namespace stretto {

class MappedTokens : public TokenSource {
 public:
  // `tokens` tokens begin `offset` bytes into the file. The caller has checked that they fit.
  MappedTokens(std::unique_ptr<MappedFile> file, int64_t offset, int64_t tokens, TokenWidth width,
               std::string format)
      : file_(std::move(file)),
        offset_(offset),
        tokens_(tokens),
        width_(width),
        format_(std::move(format)) {}

  int64_t tokens() const override { return tokens_; }
  void read(int64_t begin, std::span<int32_t> out) const override;
  std::string format() const override { return format_; }
  std::string name() const override { return file_->path(); }

 private:
  std::unique_ptr<MappedFile> file_;
  int64_t offset_;
  int64_t tokens_;
  TokenWidth width_;
  std::string format_;
};

// The Error of all readers: what is wrong with which file, and what to do.
Error bad_token_file(const std::string& path, std::string_view problem, std::string_view fix);

}  // namespace stretto
