// Megatron's indexed data set. The index: 9 bytes "MMIDIDX\0\0", u64 version 1, u8 dtype code, u64
// sequences, u64 entries of the document list (one more than documents), then int32 lengths in
// tokens, int64 byte pointers into the .bin, int64 document list (numbers of sequences), and
// optionally int8 modes, which language models do not use.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "data/mapped_tokens.h"
#include "data/token_file.h"

namespace stretto {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr int64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;
constexpr const char* kPrepareAgain = "the index is damaged: copy the pair or prepare it again";

// One array of the index. Entries are not aligned, and another process may shorten the file. So
// they are copied, about a page at a time, and never read in place.
template <typename T>
class IndexArray {
 public:
  IndexArray(const MappedFile& file, int64_t offset, int64_t count)
      : file_(file), offset_(offset), count_(count) {}

  // The entries from `i` on, as many as are in the copy.
  std::span<const T> from(int64_t i) {
    const auto n = static_cast<size_t>(std::min<int64_t>(std::ssize(entries_), count_ - i));
    file_.copy(entries_.data(), n * sizeof(T), offset_ + i * static_cast<int64_t>(sizeof(T)));
    return std::span(entries_).first(n);
  }

 private:
  const MappedFile& file_;
  int64_t offset_, count_;
  std::array<T, 1024> entries_;
};

struct Index {
  TokenWidth width = TokenWidth::u16;
  int64_t sequences = 0;
  int64_t document_entries = 0;
  int64_t tokens = 0;

  int64_t lengths_at() const { return kHeaderBytes; }
  int64_t pointers_at() const { return lengths_at() + 4 * sequences; }
  int64_t documents_at() const { return pointers_at() + 8 * sequences; }
  int64_t end() const { return documents_at() + 8 * document_entries; }
};

bool known_width(uint8_t code) { return (code >= 1 && code <= 5) || code == 8; }

template <typename T>
T load(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

Index read_header(const MappedFile& file) {
  const std::string& path = file.path();
  std::string header(static_cast<size_t>(std::min(kHeaderBytes, file.size())), '\0');
  file.copy(header.data(), header.size(), 0);
  if (std::ssize(header) < kHeaderBytes || !header.starts_with(kMagic)) {
    throw bad_token_file(path, "not a Megatron index (MMIDIDX)", "give the .idx of the pair");
  }
  const auto version = load<uint64_t>(header, 9);
  const auto code = load<uint8_t>(header, 17);
  const auto sequences = load<uint64_t>(header, 18);
  const auto entries = load<uint64_t>(header, 26);
  if (version != 1) {
    throw bad_token_file(path, fmt::format("index version {}, only 1 is known", version),
                         kPrepareAgain);
  }
  if (!known_width(code)) {
    throw bad_token_file(path, fmt::format("dtype code {} holds no token ids", code),
                         "use an integer type");
  }
  // Division instead of multiplication, because counts in the file may be anything up to 2^64 - 1.
  const auto room = static_cast<uint64_t>(file.size() - kHeaderBytes);
  if (sequences > room / 12 || entries > (room - 12 * sequences) / 8) {
    throw bad_token_file(path,
                         fmt::format("the header counts {} sequences and {} document entries, more "
                                     "than its {} bytes can hold",
                                     sequences, entries, file.size()),
                         "the index is truncated: copy the pair or prepare it again");
  }
  return {static_cast<TokenWidth>(code), static_cast<int64_t>(sequences),
          static_cast<int64_t>(entries), 0};
}

// Goes over the index once and requires that sequences follow each other in the .bin without gap or
// overlap. Then the corpus is one flat array, and positions need no table.
void check_sequences(Index& index, const MappedFile& file, int64_t bin_bytes,
                     const std::string& bin_path) {
  const int64_t width = bytes_of(index.width);
  IndexArray<int32_t> lengths(file, index.lengths_at(), index.sequences);
  IndexArray<int64_t> pointers(file, index.pointers_at(), index.sequences);
  int64_t expected = 0;
  for (int64_t i = 0; i < index.sequences;) {
    const auto some_lengths = lengths.from(i);
    const auto some_pointers = pointers.from(i);
    for (size_t k = 0; k < some_lengths.size(); ++k, ++i) {
      const int64_t length = some_lengths[k], pointer = some_pointers[k];
      if (length < 0 || pointer != expected || length * width > bin_bytes - expected) {
        throw bad_token_file(
            file.path(),
            fmt::format("sequence {}: {} tokens at byte {}, where byte {} of {} ({} bytes) was "
                        "expected",
                        i, length, pointer, expected, bin_path, bin_bytes),
            "index and .bin do not belong together or are truncated: copy the pair or prepare it "
            "again");
      }
      expected += length * width;
    }
  }
  index.tokens = expected / width;
  if (expected != bin_bytes) {
    throw bad_token_file(
        bin_path, fmt::format("{} bytes, but {} describes {}", bin_bytes, file.path(), expected),
        "index and .bin do not belong together: copy the pair or prepare it again");
  }
  if (index.tokens == 0) {
    throw bad_token_file(bin_path, "no tokens", "prepare it again from text that is not empty");
  }
}

void check_documents(const Index& index, const MappedFile& file) {
  IndexArray<int64_t> documents(file, index.documents_at(), index.document_entries);
  int64_t previous = 0;
  for (int64_t i = 0; i < index.document_entries;) {
    for (const int64_t entry : documents.from(i)) {
      if (entry < previous || entry > index.sequences || (i == 0 && entry != 0)) {
        throw bad_token_file(file.path(),
                             fmt::format("document {} begins at sequence {}, after {} and of {}", i,
                                         entry, previous, index.sequences),
                             kPrepareAgain);
      }
      previous = entry;
      ++i;
    }
  }
  if (index.document_entries == 0 || previous != index.sequences) {
    throw bad_token_file(
        file.path(),
        fmt::format("the documents counted ({}) end at sequence {} of {}",
                    std::max<int64_t>(index.document_entries - 1, 0), previous, index.sequences),
        kPrepareAgain);
  }
}

class MegatronTokens final : public MappedTokens {
 public:
  MegatronTokens(Index index, std::unique_ptr<MappedFile> idx, std::unique_ptr<MappedFile> bin)
      : MappedTokens(std::move(bin), 0, index.tokens, index.width,
                     fmt::format("megatron {}", name_of(index.width))),
        index_(index),
        idx_(std::move(idx)) {}

  int64_t documents() const override { return index_.document_entries - 1; }

  int64_t document_begin(int64_t document) const override {
    STRETTO_CHECK(document >= 0 && document < index_.document_entries, "document {}", document);
    int64_t sequence = 0, pointer = 0;
    idx_->copy(&sequence, 8, index_.documents_at() + 8 * document);
    if (sequence == index_.sequences) return tokens();
    idx_->copy(&pointer, 8, index_.pointers_at() + 8 * sequence);
    idx_->require_whole();
    return pointer / bytes_of(index_.width);
  }

 private:
  Index index_;
  std::unique_ptr<MappedFile> idx_;
};

class MegatronWriter final : public TokenWriter {
 public:
  MegatronWriter(const std::string& stem, int64_t vocab, Fs& fs)
      : bin_(fs, stem + ".bin"),
        idx_(fs, stem + ".idx"),
        // Where Megatron itself changes the type.
        width_(vocab < 65500 ? TokenWidth::u16 : TokenWidth::i32) {}

  void append(std::span<const int32_t> ids) override {
    const bool narrow = width_ == TokenWidth::u16;
    // A length has 31 bits, so a longer document becomes several sequences.
    while (length_ + std::ssize(ids) > INT32_MAX) {
      const auto fits = static_cast<size_t>(INT32_MAX - length_);
      append(ids.first(fits));
      end_sequence();
      ids = ids.subspan(fits);
    }
    buffer_.clear();
    for (const int32_t id : ids) {
      STRETTO_CHECK(id >= 0 && (!narrow || id < 65536), "id {}", id);
      buffer_.append(reinterpret_cast<const char*>(&id), narrow ? 2 : 4);  // little-endian
    }
    bin_.file().append(buffer_);
    length_ += std::ssize(ids);
  }

  void end_document() override {
    end_sequence();
    document_ends_.push_back(std::ssize(lengths_));
  }

  void finish() override {
    if (length_ > 0) end_document();
    const auto sequences = lengths_.size();
    std::string out(kMagic);
    put<uint64_t>(out, 1);
    put<uint8_t>(out, static_cast<uint8_t>(width_));
    put<uint64_t>(out, sequences);
    put<uint64_t>(out, document_ends_.size());
    for (const int32_t length : lengths_) put(out, length);
    flush(out);
    int64_t pointer = 0;
    for (const int32_t length : lengths_) {
      put(out, pointer);
      pointer += length * bytes_of(width_);
      if (out.size() > kFlushBytes) flush(out);
    }
    for (const int64_t end : document_ends_) {
      put(out, end);
      if (out.size() > kFlushBytes) flush(out);
    }
    flush(out);
    // The .bin comes first: a reader that finds the new .idx must find its tokens, too.
    bin_.commit();
    idx_.commit();
  }

 private:
  static constexpr size_t kFlushBytes = 1 << 20;

  template <typename T>
  static void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void flush(std::string& out) {
    idx_.file().append(out);
    out.clear();
  }

  void end_sequence() {
    lengths_.push_back(static_cast<int32_t>(length_));
    length_ = 0;
  }

  AtomicFile bin_;
  AtomicFile idx_;
  TokenWidth width_;
  // The only memory that grows with the corpus: 12 bytes per document.
  std::vector<int32_t> lengths_;
  std::vector<int64_t> document_ends_ = {0};
  int64_t length_ = 0;  // of the current sequence
  std::string buffer_;
};

}  // namespace

std::unique_ptr<TokenSource> open_megatron(const std::string& stem, Fs& fs) {
  auto idx = fs.map(stem + ".idx");
  auto bin = fs.map(stem + ".bin");
  Index index = read_header(*idx);
  check_sequences(index, *idx, bin->size(), bin->path());
  check_documents(index, *idx);
  idx->require_whole();
  return std::make_unique<MegatronTokens>(index, std::move(idx), std::move(bin));
}

std::unique_ptr<TokenWriter> write_megatron(const std::string& path, int64_t vocab, Fs& fs) {
  const bool suffixed = path.ends_with(".bin") || path.ends_with(".idx");
  return std::make_unique<MegatronWriter>(suffixed ? path.substr(0, path.size() - 4) : path, vocab,
                                          fs);
}

}  // namespace stretto
