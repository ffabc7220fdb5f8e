// llm.c, raw uint16 and byte files.
#include "data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "data/mapped_tokens.h"

namespace stretto {
namespace {

constexpr int64_t kLlmcHeaderBytes = 256 * 4;
constexpr int32_t kLlmcMagic16 = 20240520, kLlmcVersion16 = 1;
constexpr int32_t kLlmcMagic32 = 20240801, kLlmcVersion32 = 7;
// Token ids are copied out of the mapping in pieces of this size, then widened.
constexpr size_t kPieceBytes = 8192;

template <typename Stored>
void widen(const char* raw, std::span<int32_t> out, const std::string& name, int64_t begin) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, raw + i * sizeof(Stored), sizeof(Stored));
    if constexpr (sizeof(Stored) >= 4 || std::is_signed_v<Stored>) {
      if (value < 0 || static_cast<uint64_t>(value) > INT32_MAX) [[unlikely]] {
        throw bad_token_file(name,
                             fmt::format("token {} is {}, which is not a token id",
                                         begin + static_cast<int64_t>(i), value),
                             "the file is damaged or has another format; prepare it again");
      }
    }
    out[i] = static_cast<int32_t>(value);
  }
}

class LlmcWriter final : public TokenWriter {
 public:
  LlmcWriter(const std::string& path, int64_t vocab, Fs& fs)
      : out_(fs, path), wide_(vocab > 65536), path_(path) {
    out_.file().append(std::string(kLlmcHeaderBytes, '\0'));
  }

  void end_document() override {}  // the format keeps no boundaries

  void append(std::span<const int32_t> ids) override {
    tokens_ += static_cast<int64_t>(ids.size());
    if (tokens_ > INT32_MAX) {
      throw Error(
          ExitCode::cannot_create,
          fmt::format("{}: more tokens than the 31 bits of an llm.c header can count", path_),
          "write the Megatron format, or split the input");
    }
    buffer_.clear();
    for (const int32_t id : ids) {
      STRETTO_CHECK(id >= 0 && (wide_ || id < 65536), "id {}", id);
      buffer_.append(reinterpret_cast<const char*>(&id), wide_ ? 4 : 2);  // little-endian
    }
    out_.file().append(buffer_);
  }

  void finish() override {
    std::array<int32_t, 256> header{};
    header[0] = wide_ ? kLlmcMagic32 : kLlmcMagic16;
    header[1] = wide_ ? kLlmcVersion32 : kLlmcVersion16;
    header[2] = static_cast<int32_t>(tokens_);
    out_.file().write_at(header.data(), sizeof(header), 0);
    out_.commit();
  }

 private:
  AtomicFile out_;
  bool wide_;
  std::string path_;
  int64_t tokens_ = 0;
  std::string buffer_;
};

}  // namespace

Error bad_token_file(const std::string& path, std::string_view problem, std::string_view fix) {
  return {ExitCode::bad_data, fmt::format("{}: {}", path, problem), std::string(fix)};
}

int64_t bytes_of(TokenWidth width) {
  switch (width) {
    case TokenWidth::u8:
    case TokenWidth::i8:
      return 1;
    case TokenWidth::i16:
    case TokenWidth::u16:
      return 2;
    case TokenWidth::i32:
    case TokenWidth::u32:
      return 4;
    case TokenWidth::i64:
      return 8;
  }
  return 0;
}

const char* name_of(TokenWidth width) {
  switch (width) {
    case TokenWidth::u8:
      return "uint8";
    case TokenWidth::i8:
      return "int8";
    case TokenWidth::i16:
      return "int16";
    case TokenWidth::u16:
      return "uint16";
    case TokenWidth::i32:
      return "int32";
    case TokenWidth::u32:
      return "uint32";
    case TokenWidth::i64:
      return "int64";
  }
  return "unknown";
}

void MappedTokens::read(int64_t begin, std::span<int32_t> out) const {
  STRETTO_CHECK(begin >= 0 && begin <= tokens_ && out.size() <= size_t(tokens_ - begin),
                "{} tokens at {} of {} ({} tokens)", out.size(), begin, name(), tokens_);
  const int64_t width = bytes_of(width_);
  std::array<char, kPieceBytes> raw;
  while (!out.empty()) {
    const size_t count = std::min(out.size(), kPieceBytes / static_cast<size_t>(width));
    file_->copy(raw.data(), count * static_cast<size_t>(width), offset_ + begin * width);
    const std::span<int32_t> piece = out.first(count);
    switch (width_) {
      case TokenWidth::u8:
        widen<uint8_t>(raw.data(), piece, name(), begin);
        break;
      case TokenWidth::i8:
        widen<int8_t>(raw.data(), piece, name(), begin);
        break;
      case TokenWidth::i16:
        widen<int16_t>(raw.data(), piece, name(), begin);
        break;
      case TokenWidth::u16:
        widen<uint16_t>(raw.data(), piece, name(), begin);
        break;
      case TokenWidth::i32:
        widen<int32_t>(raw.data(), piece, name(), begin);
        break;
      case TokenWidth::u32:
        widen<uint32_t>(raw.data(), piece, name(), begin);
        break;
      case TokenWidth::i64:
        widen<int64_t>(raw.data(), piece, name(), begin);
        break;
    }
    begin += static_cast<int64_t>(count);
    out = out.subspan(count);
  }
  file_->require_whole();
}

std::unique_ptr<TokenSource> open_llmc(const std::string& path, Fs& fs) {
  auto file = fs.map(path);
  std::array<int32_t, 3> header{};
  const bool has_header = file->size() >= kLlmcHeaderBytes;
  if (has_header) file->copy(header.data(), sizeof(header), 0);
  const auto [magic, version, count] = header;
  const bool narrow = magic == kLlmcMagic16 && version == kLlmcVersion16;
  const bool wide = magic == kLlmcMagic32 && version == kLlmcVersion32;
  if (!has_header || (!narrow && !wide)) {
    throw bad_token_file(
        path,
        fmt::format("no llm.c header (magic {}, version {}) and no .idx beside it", magic, version),
        "for raw uint16 tokens name the file .u16, or give the format `u16`; for Megatron files "
        "keep the .idx beside the .bin");
  }
  const TokenWidth width = narrow ? TokenWidth::u16 : TokenWidth::u32;
  const int64_t bytes = file->size() - kLlmcHeaderBytes, held = bytes / bytes_of(width);
  if (count <= 0 || count * bytes_of(width) != bytes) {
    throw bad_token_file(
        path,
        fmt::format("the header counts {} tokens of {} bytes, the file holds {} bytes of them",
                    count, bytes_of(width), bytes),
        held == 0      ? "prepare the file again from text that is not empty"
        : count > held ? "the file is truncated: copy or prepare it again"
                       : "tokens would be lost: prepare it again, in the Megatron format if there "
                         "are more of them than 31 bits can count");
  }
  return std::make_unique<MappedTokens>(std::move(file), kLlmcHeaderBytes, count, width,
                                        fmt::format("llm.c {}", name_of(width)));
}

std::unique_ptr<TokenSource> open_raw_u16(const std::string& path, Fs& fs) {
  auto file = fs.map(path);
  if (file->size() == 0) throw bad_token_file(path, "the file is empty", "give a file with tokens");
  if (file->size() % 2 != 0) {
    throw bad_token_file(
        path, fmt::format("{} bytes are not a whole number of uint16 tokens", file->size()),
        "the file is truncated, or its format is another than `u16`");
  }
  const int64_t tokens = file->size() / 2;
  return std::make_unique<MappedTokens>(std::move(file), 0, tokens, TokenWidth::u16, "raw uint16");
}

std::unique_ptr<TokenSource> open_bytes(const std::string& path, Fs& fs, int64_t begin) {
  auto file = fs.map(path);
  const int64_t tokens = file->size() - begin;
  if (tokens <= 0) throw bad_token_file(path, "the file is empty", "give a file with text");
  return std::make_unique<MappedTokens>(std::move(file), begin, tokens, TokenWidth::u8, "bytes");
}

std::unique_ptr<TokenWriter> write_llmc(const std::string& path, int64_t vocab, Fs& fs) {
  return std::make_unique<LlmcWriter>(path, vocab, fs);
}

}  // namespace stretto
