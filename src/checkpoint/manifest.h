// The manifest: what a checkpoint holds, and the digests that prove it. It is the last file written
// and sealed with a digest of itself: a directory without a valid one is no checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/digest.h"

namespace stretto {

constexpr int64_t kChunkBytes = 4 << 20;  // of a tensor's bytes, per digest
// Called as bytes are written, read and checked, at least once a chunk, from any thread.
using OnProgress = std::function<void()>;
inline void unheard() {}  // where nobody wants to know
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
  std::string config;  // JSON
  std::string state;   // JSON: what the trainer needs beside tensors
  std::vector<FileRecord> files;

  int64_t bytes() const;
};

// Text and back. Reading is a pure function of bytes: every change of one bit is found, and file
// names cannot lead out of the directory. bad_data naming `name`.
std::string manifest_text(const Manifest& manifest);
Manifest parse_manifest(std::string_view text, const std::string& name);

// What one rank wrote, handed to the rank that writes the manifest.
std::string file_record_text(const FileRecord& record);
FileRecord parse_file_record(std::string_view text, const std::string& name);

}  // namespace stretto
