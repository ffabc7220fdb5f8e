#include "checkpoint/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <string_view>

#include "base/ceil_div.h"
#include "base/clock.h"
#include "checkpoint/safetensors.h"

namespace stretto {
namespace {

// The header of the shard's file. A tensor that the shard holds completely keeps its shape, so that
// other tools can read it.
std::string shard_head(const Shard& shard, int64_t step, std::vector<StTensor>& tensors) {
  std::map<std::string, std::string> metadata = {{"stretto.step", fmt::format("{}", step)}};
  for (const ShardTensor& t : shard.tensors) {
    metadata.emplace(parameter_of(t.name), placement_text(t.placement));
    const int64_t count = element_count(t.placement.runs);
    const bool whole = count == t.placement.global_count();
    tensors.push_back({t.name, st_type_of(t.type),
                       whole ? t.placement.shape : std::vector<int64_t>{count}, 0, 0});
  }
  return safetensors_head(tensors, metadata);
}

template <typename Work>
void timed(double& seconds, const Work& work) {
  const double start = clock_seconds();
  work();
  seconds += clock_seconds() - start;
}

// Calls work(tensor, chunk of it, bytes) for everything in the shard, in file order.
template <typename Work>
void for_chunks(const Shard& shard, const Work& work) {
  for (size_t i = 0; i < shard.tensors.size(); ++i) {
    const ShardTensor& t = shard.tensors[i];
    for (int64_t begin = 0; begin < t.bytes(); begin += kChunkBytes) {
      const auto size = static_cast<size_t>(std::min(kChunkBytes, t.bytes() - begin));
      work(i, static_cast<size_t>(begin / kChunkBytes),
           std::string_view(shard.data() + t.offset + begin, size));
    }
  }
}

}  // namespace

std::string parameter_of(const std::string& tensor) {
  for (const std::string_view prefix : kMomentPrefix) {
    if (tensor.rfind(prefix, 0) == 0) return tensor.substr(prefix.size());
  }
  return tensor;
}

void Shard::add(std::string name, Placement placement, DType type) {
  tensors.push_back({std::move(name), std::move(placement), type, bytes});
  bytes += tensors.back().bytes();
}

void Shard::allocate(int64_t step) {
  if (memory_ == nullptr || bytes > capacity_) {
    memory_.reset();
    memory_.reset(new char[static_cast<size_t>(bytes + 2 * kDirectBlock)]);  // not zeroed
    capacity_ = bytes;
  }
  // The data follow the header: their place within a block is the same in memory as in the file.
  std::vector<StTensor> unused;
  const auto head = static_cast<int64_t>(shard_head(*this, step, unused).size());
  const auto begin = reinterpret_cast<uintptr_t>(memory_.get()) % kDirectBlock;
  data_ = memory_.get() + (kDirectBlock - static_cast<int64_t>(begin)) % kDirectBlock +
          head % kDirectBlock;
}

int64_t shard_file_bytes(const Shard& shard, int64_t step) {
  std::vector<StTensor> tensors;
  return static_cast<int64_t>(shard_head(shard, step, tensors).size()) + shard.bytes;
}

FileRecord write_shard(Fs& fs, const std::string& path, const Shard& shard, int64_t step,
                       WriteTimes& times, const OnProgress& moved) {
  std::vector<StTensor> tensors;
  const std::string head = shard_head(shard, step, tensors);
  FileRecord record;
  record.name = path.substr(path.find_last_of('/') + 1);
  record.bytes = static_cast<int64_t>(head.size()) + shard.bytes;
  record.head = digest_of(head);
  for (const ShardTensor& t : shard.tensors) {
    const int64_t chunks = ceil_div(t.bytes(), kChunkBytes);
    record.tensors.push_back({t.name, std::vector<Digest>(static_cast<size_t>(chunks))});
  }

  // Writing mostly waits for the disk, so the digests are taken at the same time, or afterwards if
  // no thread can be started.
  auto digests = std::async(std::launch::async | std::launch::deferred, [&] {
    for_chunks(shard, [&](size_t tensor, size_t chunk, std::string_view bytes) {
      record.tensors[tensor].chunks[chunk] = digest_of(bytes);
      moved();
    });
  });
  const auto file = fs.create(path);
  file->bypass_cache();
  timed(times.write, [&] {
    file->preallocate(record.bytes);
    file->append(head);
    for_chunks(shard, [&](size_t, size_t, std::string_view bytes) {
      file->append(bytes);
      moved();
    });
  });
  timed(times.digest, [&] { digests.get(); });
  timed(times.sync, [&] { file->sync(); });
  file->close();
  return record;
}

}  // namespace stretto
