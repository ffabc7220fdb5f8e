// A corpus as one long sequence of token ids, whatever the file format.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/fs.h"
#include "base/token_format.h"

namespace stretto {

// Read-only and safe to share between threads. Positions and counts are tokens.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  virtual int64_t tokens() const = 0;
  // Reads the ids at [begin, begin + out.size()), which must be inside tokens(). Ids above 2^31 - 1
  // cannot belong to any vocabulary and throw bad_data.
  virtual void read(int64_t begin, std::span<int32_t> out) const = 0;

  // The number of documents, if the format keeps their boundaries; otherwise 0.
  virtual int64_t documents() const { return 0; }
  virtual int64_t document_begin(int64_t document) const;  // for documents() itself: the end

  virtual std::string format() const = 0;  // "megatron uint16", "llm.c uint16", "bytes", ...
  virtual std::string name() const = 0;    // the path, or another name for messages
};

// Opens a token file. Detection: .idx, or .bin beside an .idx, or their common prefix: Megatron;
// .bin with a magic number: llm.c; .u16: raw; anything else: bytes.
std::unique_ptr<TokenSource> open_tokens(const std::string& path,
                                         TokenFormat format = TokenFormat::detect,
                                         Fs& fs = posix_fs());

// Uniform ids below `vocab`, a pure function of (seed, position): benchmarks without data.
std::unique_ptr<TokenSource> synthetic_tokens(uint64_t seed, int64_t vocab,
                                              int64_t tokens = int64_t{1} << 40);

// Tokens in memory, for tests and for text that was just encoded.
std::unique_ptr<TokenSource> memory_tokens(std::string name, std::vector<int32_t> ids);

}  // namespace stretto
