// The safetensors format: an 8-byte length, a JSON header, then the tensors' bytes without gaps.
// Reading is a pure function of bytes and rejects anything that could be read in two ways.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/fs.h"

namespace stretto {

struct StTensor {
  std::string name;
  std::string type;  // as the file spells it: "F32", "BF16", "I64", ...
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes, from the beginning of the file

  int64_t count() const;  // elements
};

struct Safetensors {
  std::vector<StTensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  int64_t data_begin = 0;  // first byte after the header
  int64_t file_bytes = 0;

  const StTensor* find(std::string_view name) const;
};

// The largest header that readers accept, in bytes.
constexpr int64_t kMaxStHeader = 100'000'000;

// Bytes of length field and header, from the first 8 bytes of a file of `file_bytes`. Throws
// bad_data if that size is impossible. `name` is for messages.
int64_t safetensors_head_bytes(std::string_view first, int64_t file_bytes, const std::string& name);

// `head`: length field and header. Checks everything: type, shape and size of each tensor must
// agree, and together the tensors must fill the file exactly. Throws bad_data.
Safetensors parse_safetensors(std::string_view head, int64_t file_bytes, const std::string& name);
Safetensors open_safetensors(const MappedFile& file);

// Length field and header for tensors that are stored one after the other; sets their begin and
// end. Data begins at a multiple of 64 bytes.
std::string safetensors_head(std::vector<StTensor>& tensors,
                             const std::map<std::string, std::string>& metadata);

// Our element type for a name, and back; nullopt for types that we do not compute with (I64, BOOL,
// ...).
std::optional<DType> dtype_of(std::string_view st_type);
const char* st_type_of(DType type);

// `count` elements of a float type at `data` (no alignment needed) as floats; exact.
bool holds_floats(std::string_view st_type);
void floats_from(float* out, const void* data, DType type, int64_t count);

}  // namespace stretto
