#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/ceil_div.h"
#include "checkpoint/shard.h"

namespace stretto {
namespace {

constexpr int64_t kMaxManifestBytes = int64_t{1} << 30;

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw Error(ExitCode::bad_data, fmt::format("{}: {}", file, what),
              "this checkpoint is damaged: use another one, or restore the file");
}

}  // namespace

Checkpoint Checkpoint::open(Fs& fs, const std::string& path) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  const std::string manifest = join_path(path, kManifestName);
  checkpoint.manifest_ = parse_manifest(read_file(fs, manifest, kMaxManifestBytes), manifest);
  for (const FileRecord& record : checkpoint.manifest_.files) checkpoint.open_file(fs, record);
  // Throws unless it is complete.
  for (const auto& [name, parts] : checkpoint.parts_) checkpoint.reader(name);
  return checkpoint;
}

void Checkpoint::open_file(Fs& fs, const FileRecord& record) {
  OpenFile file;
  const std::string path = join_path(path_, record.name);
  file.mapping = fs.map(path);
  if (file.mapping->size() != record.bytes) {
    refuse(path, fmt::format("{} bytes, {} were written", file.mapping->size(), record.bytes));
  }
  std::string head(static_cast<size_t>(std::min<int64_t>(8, record.bytes)), '\0');
  file.mapping->copy(head.data(), head.size(), 0);
  head.resize(static_cast<size_t>(safetensors_head_bytes(head, record.bytes, path)));
  file.mapping->copy(head.data(), head.size(), 0);
  if (digest_of(head) != record.head) {
    refuse(path, fmt::format("header, bytes 0 to {}: digest mismatch", head.size()));
  }
  file.content = parse_safetensors(head, record.bytes, path);
  if (file.content.tensors.size() != record.tensors.size()) {
    refuse(path, "tensors without digests");
  }
  files_.push_back(std::move(file));
  index(files_.back());
}

void Checkpoint::index(const OpenFile& file) {
  const std::string& path = file.mapping->path();
  for (const StTensor& tensor : file.content.tensors) {
    const auto text = file.content.metadata.find(parameter_of(tensor.name));
    if (text == file.content.metadata.end()) {
      refuse(path, fmt::format("tensor {}: its place in the model is missing", tensor.name));
    }
    Placement placement = parse_placement(text->second, path);
    if (element_count(placement.runs) != tensor.count()) {
      refuse(path, fmt::format("tensor {}: {} elements for {} places", tensor.name, tensor.count(),
                               element_count(placement.runs)));
    }
    parts_[tensor.name].push_back({file.mapping.get(), tensor, std::move(placement)});
  }
}

std::vector<std::string> Checkpoint::tensors() const {
  std::vector<std::string> names;
  for (const auto& [name, parts] : parts_) names.push_back(name);
  return names;
}

TensorReader Checkpoint::reader(const std::string& name) const {
  const auto found = parts_.find(name);
  if (found == parts_.end()) {
    throw Error(ExitCode::bad_data, fmt::format("{}: no tensor {}", path_, name),
                "the checkpoint belongs to another model");
  }
  TensorReader reader;
  const Part& first = found->second.front();
  reader.shape_ = first.placement.shape;
  reader.count_ = first.placement.global_count();
  const auto type = dtype_of(first.tensor.type);
  if (!type) refuse(first.file->path(), fmt::format("tensor {}: type {}", name, first.tensor.type));
  reader.type_ = *type;
  for (const Part& part : found->second) {
    if (part.placement.shape != reader.shape_ || part.tensor.type != first.tensor.type) {
      refuse(part.file->path(), fmt::format("tensor {}: files disagree on its shape", name));
    }
    int64_t offset = part.tensor.begin;
    for (const Run& run : expand_runs(part.placement.runs)) {
      reader.sources_.push_back({run.global_begin, run.count, part.file, offset});
      offset += run.count * static_cast<int64_t>(dtype_size(*type));
    }
  }
  std::sort(reader.sources_.begin(), reader.sources_.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  int64_t at = 0;
  for (const TensorReader::Source& source : reader.sources_) {
    if (source.begin != at) {
      refuse(source.file->path(),
             fmt::format("tensor {}: element {} is {}", name, std::min(at, source.begin),
                         source.begin < at ? "there twice" : "missing"));
    }
    at += source.count;
  }
  if (at != reader.count_) {
    refuse(first.file->path(),
           fmt::format("tensor {}: ends at element {} of {}", name, at, reader.count_));
  }
  return reader;
}

void TensorReader::read(int64_t begin, int64_t count, float* out) const {
  STRETTO_CHECK(begin >= 0 && count >= 0 && begin + count <= count_, "[{}, {}) of {}", begin,
                begin + count, count_);
  auto source = std::upper_bound(sources_.begin(), sources_.end(), begin,
                                 [](int64_t at, const Source& s) { return at < s.begin; });
  const auto size = static_cast<int64_t>(dtype_size(type_));
  std::vector<char> bytes;
  for (--source; count > 0; ++source) {
    const int64_t skip = begin - source->begin, n = std::min(count, source->count - skip);
    if (type_ == DType::f32) {
      source->file->copy(out, static_cast<size_t>(n * size), source->offset + skip * size);
    } else {
      bytes.resize(static_cast<size_t>(n * size));
      source->file->copy(bytes.data(), bytes.size(), source->offset + skip * size);
      floats_from(out, bytes.data(), type_, n);
    }
    begin += n;
    count -= n;
    out += n;
    const bool last_of_file = count == 0 || (source + 1)->file != source->file;
    if (last_of_file) source->file->require_whole();
  }
}

void Checkpoint::verify_file(size_t index, const ChunkReader& read, const OnProgress& moved,
                             int64_t& bytes) const {
  const FileRecord& record = manifest_.files[index];
  const OpenFile& file = files_[index];
  std::unordered_map<std::string_view, const StTensor*> by_name;
  for (const StTensor& tensor : file.content.tensors) by_name[tensor.name] = &tensor;
  for (const TensorRecord& expected : record.tensors) {
    const StTensor* tensor = by_name[expected.name];
    const int64_t size = tensor == nullptr ? -1 : tensor->end - tensor->begin;
    const auto chunks = static_cast<int64_t>(expected.chunks.size());
    if (size < 0 || chunks != ceil_div(size, kChunkBytes)) {
      refuse(file.mapping->path(), fmt::format("tensor {}: digests do not fit", expected.name));
    }
    for (int64_t c = 0; c < chunks; ++c) {
      const int64_t begin = c * kChunkBytes, n = std::min(kChunkBytes, size - begin);
      const char* chunk = read(tensor->begin + begin, n);
      bytes += n;
      moved();
      if (digest_of(chunk, static_cast<size_t>(n)) == expected.chunks[static_cast<size_t>(c)]) {
        continue;
      }
      refuse(file.mapping->path(),
             fmt::format("tensor {}, bytes {} to {} of the file: digest mismatch", expected.name,
                         tensor->begin + begin, tensor->begin + begin + n));
    }
  }
}

int64_t Checkpoint::verify(int part, int parts, const OnProgress& moved) const {
  int64_t bytes = 0;
  std::vector<char> chunk(static_cast<size_t>(kChunkBytes));
  for (auto i = static_cast<size_t>(part); i < files_.size(); i += static_cast<size_t>(parts)) {
    const MappedFile& mapping = *files_[i].mapping;
    const auto read = [&](int64_t offset, int64_t n) {
      mapping.copy(chunk.data(), static_cast<size_t>(n), offset);
      return chunk.data();
    };
    verify_file(i, read, moved, bytes);
  }
  return bytes;
}

void Checkpoint::verify_on_disk(Fs& fs, const OnProgress& moved) const {
  // Direct reads need whole blocks around a chunk, and memory that is aligned to blocks.
  constexpr int64_t kBlock = kDirectBlock;
  std::vector<char> memory(static_cast<size_t>(kChunkBytes + 3 * kBlock));
  const auto begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory.data()) % kBlock);
  char* const blocks = memory.data() + (kBlock - begin) % kBlock;
  int64_t bytes = 0;
  for (size_t i = 0; i < files_.size(); ++i) {
    const auto file = fs.open(files_[i].mapping->path());
    file->bypass_cache();
    const auto read = [&](int64_t offset, int64_t n) {
      const int64_t into = offset % kBlock, wanted = round_up(into + n, kBlock);
      const size_t got = file->read_at(blocks, static_cast<size_t>(wanted), offset - into);
      if (static_cast<int64_t>(got) < into + n) refuse(file->path(), "ends before its tensors do");
      return blocks + into;
    };
    verify_file(i, read, moved, bytes);
  }
}

void require_finite(const float* values, int64_t count, const std::string& path,
                    const std::string& tensor) {
  const float* end = values + count;
  const float* bad = std::find_if(values, end, [](float x) { return !std::isfinite(x); });
  if (bad == end) return;
  throw Error(ExitCode::bad_data,
              fmt::format("{}: element {} of {} is {}", path, bad - values, tensor, *bad),
              "these weights cannot be used: take an earlier checkpoint or another source");
}

}  // namespace stretto
