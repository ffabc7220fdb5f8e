// How a token file is laid out: `data.format` in a configuration, `--format` on a command line.
#pragma once

#include <string_view>

namespace stretto {

enum class TokenFormat {
  detect,    // by suffix, neighbours and magic number
  megatron,  // prefix.bin with prefix.idx
  llmc,      // 1024-byte header
  u16,       // raw little-endian uint16, no header, as nanoGPT writes it
  bytes,     // any file, each byte a token
};

const char* name_of(TokenFormat format);  // "auto", "megatron", "llmc", "u16", "bytes"
TokenFormat parse_token_format(std::string_view name);  // Error (bad_config) for any other name

}  // namespace stretto
