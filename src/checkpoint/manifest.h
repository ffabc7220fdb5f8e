// The manifest of a checkpoint: what it holds, and the digests that prove it. It is the last file
// to be written and ends with a digest of itself: a directory without a valid manifest is no
// checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/digest.h"

namespace stretto {

constexpr int64_t kChunkBytes = 4 << 20;  // one digest covers so many bytes of a tensor
// Called as bytes are written, read or checked, at least once per chunk, from any thread.
using OnProgress = std::function<void()>;
inline void unheard() {}  // for callers that need no progress
constexpr const char* kManifestName = "manifest.json";

struct TensorRecord {
  std::string name;
  std::vector<Digest> chunks;
};

struct FileRecord {
  std::string name;  // in the checkpoint's directory
  int64_t bytes = 0;
  Digest head;  // of the safetensors length and header
  std::vector<TensorRecord> tensors;
};

struct Manifest {
  int64_t step = 0;
  std::string config;  // as JSON
  std::string state;   // as JSON: what the trainer needs beside tensors
  std::vector<FileRecord> files;

  int64_t bytes() const;
};

// Writing and reading as text. Reading is a pure function of bytes; it finds every change of one
// bit, and file names cannot lead out of the directory. Throws bad_data naming `name`.
std::string manifest_text(const Manifest& manifest);
Manifest parse_manifest(std::string_view text, const std::string& name);

// What one rank has written, for the rank that writes the manifest.
std::string file_record_text(const FileRecord& record);
FileRecord parse_file_record(std::string_view text, const std::string& name);

}  // namespace stretto
