#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/ceil_div.h"
#include "base/strict_json.h"

namespace stretto {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "files are little-endian");

struct TypeRow {
  const char* name;
  int64_t bytes;
  std::optional<DType> type;
};

constexpr TypeRow kTypes[] = {
    {"F32", 4, DType::f32},    {"F64", 8, DType::f64},        {"BF16", 2, DType::bf16},
    {"F16", 2, DType::f16},    {"F8_E4M3", 1, DType::f8e4m3}, {"F8_E5M2", 1, DType::f8e5m2},
    {"I32", 4, DType::i32},    {"U16", 2, DType::u16},        {"U8", 1, DType::u8},
    {"BOOL", 1, std::nullopt}, {"I8", 1, std::nullopt},       {"I16", 2, std::nullopt},
    {"U32", 4, std::nullopt},  {"I64", 8, std::nullopt},      {"U64", 8, std::nullopt},
};

const TypeRow* find_type(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw Error(ExitCode::bad_data, fmt::format("{}: not a valid safetensors file: {}", file, what),
              "copy or download the file again");
}

// A whole number in [0, 2^62], so that sums of two cannot overflow.
int64_t whole(const json& value, const std::string& file, const std::string& where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > (uint64_t{1} << 62)) {
    refuse(file, where + " has something other than a size");
  }
  return static_cast<int64_t>(value.get<uint64_t>());
}

StTensor read_tensor(const std::string& name, const json& entry, int64_t data_begin,
                     const std::string& file) {
  const std::string where = fmt::format("tensor '{}'", name);
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    refuse(file, where + " must have dtype, shape and data_offsets, nothing else");
  }
  const json &type = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
  const TypeRow* row = type.is_string() ? find_type(type.get_ref<const std::string&>()) : nullptr;
  if (row == nullptr) refuse(file, where + " has an unknown dtype");
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2) {
    refuse(file, where + " needs a list as shape and two data_offsets");
  }
  StTensor tensor{name, row->name, {}, 0, 0};
  int64_t bytes = row->bytes;
  for (const json& size : shape) {
    tensor.shape.push_back(whole(size, file, where));
    if (__builtin_mul_overflow(bytes, tensor.shape.back(), &bytes)) {
      refuse(file, where + " has a shape larger than any memory");
    }
  }
  tensor.begin = data_begin + whole(offsets[0], file, where);
  tensor.end = data_begin + whole(offsets[1], file, where);
  if (tensor.end - tensor.begin != bytes) {
    refuse(file,
           fmt::format("{} needs {} bytes and has {}", where, bytes, tensor.end - tensor.begin));
  }
  return tensor;
}

}  // namespace

int64_t StTensor::count() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

const StTensor* Safetensors::find(std::string_view name) const {
  for (const StTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

int64_t safetensors_head_bytes(std::string_view first, int64_t file_bytes,
                               const std::string& name) {
  if (file_bytes < 8 || first.size() < 8) refuse(name, "shorter than 8 bytes");
  uint64_t length = 0;
  std::memcpy(&length, first.data(), 8);
  if (length > static_cast<uint64_t>(kMaxStHeader) ||
      length > static_cast<uint64_t>(file_bytes - 8)) {
    refuse(name, fmt::format("a header of {} bytes in a file of {}", length, file_bytes));
  }
  return 8 + static_cast<int64_t>(length);
}

Safetensors parse_safetensors(std::string_view head, int64_t file_bytes, const std::string& name) {
  Safetensors file;
  file.file_bytes = file_bytes;
  file.data_begin = safetensors_head_bytes(head, file_bytes, name);
  if (static_cast<int64_t>(head.size()) < file.data_begin) refuse(name, "the header is cut off");
  const std::string_view text = head.substr(8, static_cast<size_t>(file.data_begin) - 8);
  if (text.empty() || text[0] != '{') refuse(name, "the header does not begin with {");
  const json header = parse_json(text, name);
  for (const auto& [key, entry] : header.items()) {
    if (key != "__metadata__") {
      file.tensors.push_back(read_tensor(key, entry, file.data_begin, name));
      continue;
    }
    if (!entry.is_object()) refuse(name, "__metadata__ is not an object");
    for (const auto& [field, value] : entry.items()) {
      if (!value.is_string()) refuse(name, "__metadata__ contains something other than texts");
      file.metadata[field] = value.get<std::string>();
    }
  }
  // An empty tensor begins where the next one does, and must come before it.
  std::sort(file.tensors.begin(), file.tensors.end(), [](const StTensor& a, const StTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  int64_t at = file.data_begin;
  for (const StTensor& tensor : file.tensors) {
    if (tensor.begin != at) {
      refuse(name, fmt::format("tensor '{}' begins at byte {}, the one before it ends at {}",
                               tensor.name, tensor.begin, at));
    }
    at = tensor.end;
  }
  if (at != file_bytes) {
    refuse(name, fmt::format("tensors end at byte {} of {}", at, file_bytes));
  }
  return file;
}

Safetensors open_safetensors(const MappedFile& file) {
  std::string head(static_cast<size_t>(std::min<int64_t>(8, file.size())), '\0');
  file.copy(head.data(), head.size(), 0);
  head.resize(static_cast<size_t>(safetensors_head_bytes(head, file.size(), file.path())));
  file.copy(head.data(), head.size(), 0);
  return parse_safetensors(head, file.size(), file.path());
}

std::string safetensors_head(std::vector<StTensor>& tensors,
                             const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t at = 0;
  for (StTensor& tensor : tensors) {
    const TypeRow* row = find_type(tensor.type);
    STRETTO_CHECK(row != nullptr, "type {}", tensor.type);
    tensor.begin = at;
    at += tensor.count() * row->bytes;
    tensor.end = at;
    header[tensor.name] = {{"dtype", tensor.type},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = header.dump();
  text.resize(round_up(8 + text.size(), 64) - 8, ' ');
  const uint64_t length = text.size();
  std::string head(8, '\0');
  std::memcpy(head.data(), &length, 8);
  head += text;
  for (StTensor& tensor : tensors) {
    tensor.begin += static_cast<int64_t>(head.size());
    tensor.end += static_cast<int64_t>(head.size());
  }
  return head;
}

std::optional<DType> dtype_of(std::string_view st_type) {
  const TypeRow* row = find_type(st_type);
  return row == nullptr ? std::nullopt : row->type;
}

const char* st_type_of(DType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.name;
  }
  STRETTO_CHECK(false, "type {}", dtype_name(type));
}

namespace {

template <typename T>
void widen(float* out, const void* data, int64_t count) {
  const char* at = static_cast<const char*>(data);
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, at + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    out[i] = to_float(value);
  }
}

}  // namespace

bool holds_floats(std::string_view st_type) {
  constexpr std::array kFloats = {DType::f32, DType::bf16, DType::f16, DType::f8e4m3,
                                  DType::f8e5m2};
  const auto type = dtype_of(st_type);
  return type && std::find(kFloats.begin(), kFloats.end(), *type) != kFloats.end();
}

void floats_from(float* out, const void* data, DType type, int64_t count) {
  switch (type) {
    case DType::f32:
      std::memcpy(out, data, static_cast<size_t>(count) * 4);
      return;
    case DType::bf16:
      widen<bf16_t>(out, data, count);
      return;
    case DType::f16:
      widen<f16_t>(out, data, count);
      return;
    case DType::f8e4m3:
      widen<f8e4m3_t>(out, data, count);
      return;
    case DType::f8e5m2:
      widen<f8e5m2_t>(out, data, count);
      return;
    default:
      break;
  }
  throw Error(ExitCode::bad_data, fmt::format("weights of type {}", dtype_name(type)),
              "store them as F32, BF16 or F16");
}

}  // namespace stretto
