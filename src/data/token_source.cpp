#include "data/token_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "data/plain_text.h"
#include "data/token_file.h"

namespace stretto {
namespace {

void check_range(const TokenSource& source, int64_t begin, size_t count) {
  STRETTO_CHECK(begin >= 0 && begin <= source.tokens() &&
                    count <= static_cast<size_t>(source.tokens() - begin),
                "{} tokens at {} of {} ({} tokens)", count, begin, source.name(), source.tokens());
}

class SyntheticTokens final : public TokenSource {
 public:
  SyntheticTokens(uint64_t seed, int64_t vocab, int64_t tokens)
      : rng_(seed, stream_of("synthetic tokens")), vocab_(vocab), tokens_(tokens) {
    STRETTO_CHECK(vocab > 0 && vocab <= INT32_MAX && tokens > 0, "vocab {}, tokens {}", vocab,
                  tokens);
  }

  int64_t tokens() const override { return tokens_; }
  std::string format() const override { return "synthetic"; }
  std::string name() const override { return "synthetic tokens"; }

  void read(int64_t begin, std::span<int32_t> out) const override {
    check_range(*this, begin, out.size());
    // One random draw serves two neighbouring positions.
    for (size_t i = 0; i < out.size(); ++i) {
      const uint64_t position = static_cast<uint64_t>(begin) + i;
      const uint64_t bits = rng_.bits(position / 2);
      const uint64_t half = position % 2 == 0 ? bits >> 32 : bits & 0xffffffffu;
      out[i] = static_cast<int32_t>(half * static_cast<uint64_t>(vocab_) >> 32);
    }
  }

 private:
  CounterRng rng_;
  int64_t vocab_;
  int64_t tokens_;
};

class MemoryTokens final : public TokenSource {
 public:
  MemoryTokens(std::string name, std::vector<int32_t> ids)
      : name_(std::move(name)), ids_(std::move(ids)) {}

  int64_t tokens() const override { return static_cast<int64_t>(ids_.size()); }
  std::string format() const override { return "memory"; }
  std::string name() const override { return name_; }

  void read(int64_t begin, std::span<int32_t> out) const override {
    check_range(*this, begin, out.size());
    std::copy_n(ids_.begin() + begin, out.size(), out.begin());
  }

 private:
  std::string name_;
  std::vector<int32_t> ids_;
};

bool is_file(Fs& fs, const std::string& path) {
  const auto info = fs.info(path);
  return info && info->kind == FileKind::regular;
}

}  // namespace

int64_t TokenSource::document_begin(int64_t) const {
  STRETTO_CHECK(false, "{} keeps no documents", name());
}

std::unique_ptr<TokenSource> open_tokens(const std::string& path, TokenFormat format, Fs& fs) {
  const bool bin = path.ends_with(".bin"), idx = path.ends_with(".idx");
  const std::string stem = bin || idx ? path.substr(0, path.size() - 4) : path;
  switch (format) {
    case TokenFormat::megatron:
      return open_megatron(stem, fs);
    case TokenFormat::llmc:
      return open_llmc(path, fs);
    case TokenFormat::u16:
      return open_raw_u16(path, fs);
    case TokenFormat::bytes:
      return open_bytes(path, fs);
    case TokenFormat::detect:
      break;
  }
  if (idx || (bin && is_file(fs, stem + ".idx"))) return open_megatron(stem, fs);
  if (bin) return open_llmc(path, fs);
  if (path.ends_with(".u16")) return open_raw_u16(path, fs);
  if (!fs.info(path) && is_file(fs, path + ".idx")) return open_megatron(path, fs);
  if (!is_file(fs, path)) return open_bytes(path, fs);  // throws, and says what is wrong with it
  const auto file = fs.open(path);
  require_plain_text(*file, ", or take it as it is: the format `bytes`");
  return open_bytes(path, fs, text_begin(*file));
}

std::unique_ptr<TokenSource> synthetic_tokens(uint64_t seed, int64_t vocab, int64_t tokens) {
  return std::make_unique<SyntheticTokens>(seed, vocab, tokens);
}

std::unique_ptr<TokenSource> memory_tokens(std::string name, std::vector<int32_t> ids) {
  return std::make_unique<MemoryTokens>(std::move(name), std::move(ids));
}

}  // namespace stretto
