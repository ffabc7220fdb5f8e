// Readers and writers of the token file formats; open_tokens (token_source.h) chooses among them.
// Files may be of unknown origin, so every count and offset is first checked against the file size.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "data/token_source.h"

namespace stretto {

// Megatron: `stem`.idx (lengths, byte pointers, document indices) and `stem`.bin. Both are mapped.
// Opening checks the index in one pass and allocates no tables.
std::unique_ptr<TokenSource> open_megatron(const std::string& stem, Fs& fs);
// llm.c: 256 int32 of header, then uint16 (magic 20240520) or uint32 (magic 20240801) tokens.
std::unique_ptr<TokenSource> open_llmc(const std::string& path, Fs& fs);
std::unique_ptr<TokenSource> open_raw_u16(const std::string& path, Fs& fs);
std::unique_ptr<TokenSource> open_bytes(const std::string& path, Fs& fs, int64_t begin = 0);

// Widths on disk. The numbers are Megatron's dtype codes.
enum class TokenWidth : uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8, u32 = 0 };

int64_t bytes_of(TokenWidth width);
const char* name_of(TokenWidth width);

// Receives a corpus document by document. Nothing gets its final name before finish(); a writer
// that is destroyed without it leaves nothing behind.
class TokenWriter {
 public:
  virtual ~TokenWriter() = default;
  virtual void append(std::span<const int32_t> ids) = 0;  // part of the current document
  virtual void end_document() = 0;
  virtual void finish() = 0;  // makes everything durable and visible

  void add_document(std::span<const int32_t> ids) {
    append(ids);
    end_document();
  }
};

// `vocab` chooses the width: uint16 where every id fits, else 32 bits. `path` may end in .bin.
std::unique_ptr<TokenWriter> write_megatron(const std::string& path, int64_t vocab,
                                            Fs& fs = posix_fs());
std::unique_ptr<TokenWriter> write_llmc(const std::string& path, int64_t vocab,
                                        Fs& fs = posix_fs());

}  // namespace stretto
