// A checkpoint on disk, opened for reading. Opening it proves that it is complete (manifest, files,
// sizes, headers, every element of every tensor exactly once); verify() proves the bytes of its
// tensors.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fs.h"
#include "checkpoint/manifest.h"
#include "checkpoint/runs.h"
#include "checkpoint/safetensors.h"

namespace stretto {

// Reads stretches of one global tensor, wherever its parts are stored. The checkpoint must outlive
// it.
class TensorReader {
 public:
  int64_t count() const { return count_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  DType type() const { return type_; }
  // Reads global elements [begin, begin + count) as floats, without rounding.
  void read(int64_t begin, int64_t count, float* out) const;

 private:
  friend class Checkpoint;
  struct Source {
    int64_t begin = 0;
    int64_t count = 0;
    const MappedFile* file = nullptr;
    int64_t offset = 0;  // bytes, in the file
  };
  std::vector<Source> sources_;  // ascending, without gaps
  std::vector<int64_t> shape_;
  DType type_ = DType::f32;
  int64_t count_ = 0;
};

class Checkpoint {
 public:
  // Throws bad_data naming file and place, or no_input when there is no checkpoint.
  static Checkpoint open(Fs& fs, const std::string& path);

  const Manifest& manifest() const { return manifest_; }
  const std::string& path() const { return path_; }
  std::vector<std::string> tensors() const;  // names, sorted
  bool has(const std::string& tensor) const { return parts_.count(tensor) > 0; }
  TensorReader reader(const std::string& tensor) const;

  // Reads and checks the bytes of every `parts`-th file from file `part` on; returns their number.
  // Throws bad_data naming file, tensor and offset.
  int64_t verify(int part = 0, int parts = 1, const OnProgress& moved = unheard) const;
  // Checks all files as they are on the disk: reads past the page cache where the system can.
  void verify_on_disk(Fs& fs, const OnProgress& moved = unheard) const;

 private:
  struct OpenFile {
    std::unique_ptr<MappedFile> mapping;
    Safetensors content;
  };
  struct Part {
    const MappedFile* file = nullptr;
    StTensor tensor;
    Placement placement;
  };
  void open_file(Fs& fs, const FileRecord& record);
  void index(const OpenFile& file);
  // Reads `bytes` bytes of a file from `offset` on, and returns where they are, in a buffer of its
  // own.
  using ChunkReader = std::function<const char*(int64_t offset, int64_t bytes)>;
  void verify_file(size_t file, const ChunkReader& read, const OnProgress& moved,
                   int64_t& bytes) const;

  std::string path_;
  Manifest manifest_;
  std::vector<OpenFile> files_;                     // as manifest_.files
  std::map<std::string, std::vector<Part>> parts_;  // by tensor
};

// Throws bad_data that names the first of `values` that is NaN or infinite: a model with one such
// weight computes nothing but NaN.
void require_finite(const float* values, int64_t count, const std::string& path,
                    const std::string& tensor);

}  // namespace stretto
