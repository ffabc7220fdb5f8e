#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strict_json.h"

namespace stretto {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr const char* kFormat = "stretto-checkpoint";
constexpr std::string_view kOpen = "{\"digest\":\"";
constexpr std::string_view kMiddle = "\",\n\"content\":";
constexpr std::string_view kClose = "}\n";

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw Error(ExitCode::bad_data, fmt::format("{}: {}", name, what),
              "the file is damaged or incomplete: use another checkpoint");
}

std::string seal(const json& content) {
  const std::string body = content.dump();
  return fmt::format("{}{}{}{}{}", kOpen, digest_of(body).hex(), kMiddle, body, kClose);
}

// Every byte is fixed, or part of the digest, or covered by it, so any change is found.
json unseal(std::string_view text, const std::string& name) {
  const size_t head = kOpen.size() + 32 + kMiddle.size();
  if (text.size() < head + kClose.size() || text.substr(0, kOpen.size()) != kOpen ||
      text.substr(kOpen.size() + 32, kMiddle.size()) != kMiddle ||
      text.substr(text.size() - kClose.size()) != kClose) {
    refuse(name, "the seal is broken or cut off");
  }
  const std::string_view body = text.substr(head, text.size() - head - kClose.size());
  const std::string digest = digest_of(body).hex();
  if (text.substr(kOpen.size(), 32) != digest) {
    refuse(name, fmt::format("the content has digest {}, not the one it was sealed with", digest));
  }
  return parse_json(body, name);
}

const json& member(const json& object, const char* key, const std::string& name) {
  if (!object.is_object() || !object.contains(key)) {
    refuse(name, fmt::format("'{}' is missing", key));
  }
  return object[key];
}

int64_t size_at(const json& object, const char* key, const std::string& name) {
  const json& value = member(object, key, name);
  if (!value.is_number_unsigned() || value.get<uint64_t>() > (uint64_t{1} << 62)) {
    refuse(name, fmt::format("'{}' is not a size", key));
  }
  return static_cast<int64_t>(value.get<uint64_t>());
}

const std::string& text_of(const json& value, const char* what, const std::string& name) {
  if (!value.is_string()) refuse(name, fmt::format("{} is not a text", what));
  return value.get_ref<const std::string&>();
}

Digest digest_in(const json& value, const std::string& name) {
  Digest digest;
  if (!parse_digest(text_of(value, "a digest", name), digest))
    refuse(name, "a digest is malformed");
  return digest;
}

json record_json(const FileRecord& record) {
  json tensors = json::object();
  for (const TensorRecord& tensor : record.tensors) {
    json& chunks = tensors[tensor.name] = json::array();
    for (const Digest& digest : tensor.chunks) chunks.push_back(digest.hex());
  }
  return {{"name", record.name},
          {"bytes", record.bytes},
          {"head", record.head.hex()},
          {"tensors", std::move(tensors)}};
}

FileRecord record_from(const json& object, const std::string& name) {
  FileRecord record;
  record.name = text_of(member(object, "name", name), "a file name", name);
  const bool plain = std::all_of(record.name.begin(), record.name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
  if (!plain || record.name.empty() || record.name[0] == '.' || record.name.size() > 128) {
    refuse(name, "a file has a name that none of a checkpoint has");
  }
  record.bytes = size_at(object, "bytes", name);
  record.head = digest_in(member(object, "head", name), name);
  const json& tensors = member(object, "tensors", name);
  if (!tensors.is_object()) refuse(name, "'tensors' is not an object");
  for (const auto& [tensor, chunks] : tensors.items()) {
    if (!chunks.is_array()) refuse(name, "digests are not a list");
    TensorRecord entry{tensor, {}};
    for (const json& digest : chunks) entry.chunks.push_back(digest_in(digest, name));
    record.tensors.push_back(std::move(entry));
  }
  return record;
}

}  // namespace

int64_t Manifest::bytes() const {
  int64_t sum = 0;
  for (const FileRecord& file : files) sum += file.bytes;
  return sum;
}

std::string manifest_text(const Manifest& manifest) {
  json files = json::array();
  for (const FileRecord& record : manifest.files) files.push_back(record_json(record));
  return seal({{"format", kFormat},
               {"version", kVersion},
               {"step", manifest.step},
               {"chunk_bytes", kChunkBytes},
               {"config", json::parse(manifest.config)},
               {"state", json::parse(manifest.state)},
               {"files", std::move(files)}});
}

Manifest parse_manifest(std::string_view text, const std::string& name) {
  const json content = unseal(text, name);
  if (text_of(member(content, "format", name), "'format'", name) != kFormat) {
    refuse(name, "not a checkpoint of Stretto");
  }
  const int64_t version = size_at(content, "version", name);
  if (version != kVersion) {
    throw Error(
        ExitCode::bad_data,
        fmt::format("{}: checkpoint format {}, this program reads {}", name, version, kVersion),
        "use the version of Stretto that wrote it");
  }
  if (size_at(content, "chunk_bytes", name) != kChunkBytes) refuse(name, "unknown chunk size");
  Manifest manifest;
  manifest.step = size_at(content, "step", name);
  manifest.config = member(content, "config", name).dump();
  manifest.state = member(content, "state", name).dump();
  const json& files = member(content, "files", name);
  if (!files.is_array()) refuse(name, "'files' is not a list");
  for (const json& file : files) manifest.files.push_back(record_from(file, name));
  return manifest;
}

std::string file_record_text(const FileRecord& record) { return seal(record_json(record)); }

FileRecord parse_file_record(std::string_view text, const std::string& name) {
  return record_from(unseal(text, name), name);
}

}  // namespace stretto
