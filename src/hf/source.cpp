#include "hf/source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/shell_text.h"
#include "base/strict_json.h"
#include "checkpoint/checkpoint.h"

namespace stretto {
namespace {

using nlohmann::json;

constexpr int64_t kMaxIndexBytes = 64 << 20;
constexpr const char* kOneFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// Weights in PyTorch's own format are a program, which nobody should run unseen.
void refuse_pickles(Fs& fs, const std::string& directory) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!fs.info(join_path(directory, name))) continue;
    throw Error(ExitCode::bad_data,
                fmt::format("{} has its weights in {}; import reads safetensors", directory, name),
                fmt::format("convert them: python3 -c 'import sys, transformers; model = "
                            "transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1]); "
                            "model.save_pretrained(sys.argv[1])' {}",
                            shell_quoted(directory)));
  }
}

}  // namespace

HfSource::HfSource(Fs& fs, std::string directory, std::string prefix)
    : directory_(std::move(directory)), prefix_(std::move(prefix)) {
  const std::string index = join_path(directory_, kIndex);
  std::vector<std::string> names = {kOneFile};
  if (fs.info(index)) {
    names = indexed_files(fs, index);
  } else if (!fs.info(join_path(directory_, kOneFile))) {
    refuse_pickles(fs, directory_);
  }
  for (const std::string& name : names) add(fs, name);
  refuse_others(fs, names);
}

std::vector<std::string> HfSource::indexed_files(Fs& fs, const std::string& index) const {
  const json document = parse_json(read_file(fs, index, kMaxIndexBytes), index);
  std::vector<std::string> names;
  const bool valid =
      document.is_object() && document.contains("weight_map") && document["weight_map"].is_object();
  for (const auto& item : valid ? document["weight_map"] : json::object()) {
    if (item.is_string()) names.push_back(item.get<std::string>());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& name : names) {
    if (name.find('/') == std::string::npos && !name.empty() && name[0] != '.') continue;
    throw Error(ExitCode::bad_data,
                fmt::format("{}: '{}' is not the name of a file beside it", index, name),
                "put all files of the model into one directory, and name them so");
  }
  return names;
}

// Weights that would be left out: of another model, or an addition to this one.
void HfSource::refuse_others(Fs& fs, const std::vector<std::string>& names) const {
  for (const std::string& name : fs.list(directory_)) {
    if (!name.ends_with(".safetensors") || std::ranges::count(names, name) > 0) continue;
    throw Error(ExitCode::bad_data,
                fmt::format("{}: {} would be left out, because {} does not name it", directory_,
                            name, fs.info(join_path(directory_, kIndex)) ? kIndex : kOneFile),
                "move it away if it belongs to another model");
  }
}

std::vector<float> HfSource::read(const HfTensor& wanted) const {
  const auto& [file, tensor] = find(wanted);
  std::vector<char> bytes(static_cast<size_t>(tensor->end - tensor->begin));
  file->copy(bytes.data(), bytes.size(), tensor->begin);
  file->require_whole();
  std::vector<float> values(static_cast<size_t>(tensor->count()));
  floats_from(values.data(), bytes.data(), *dtype_of(tensor->type), tensor->count());
  require_finite(values.data(), tensor->count(), file->path(), tensor->name);
  return values;
}

std::vector<std::string> HfSource::others(const std::vector<std::string>& known) const {
  std::vector<std::string> names;
  names.reserve(known.size());
  for (const std::string& name : known) names.push_back(plain(name));
  std::sort(names.begin(), names.end());
  std::vector<std::string> others;
  for (const auto& [name, place] : tensors_) {
    if (!std::binary_search(names.begin(), names.end(), name)) others.push_back(place.second->name);
  }
  return others;
}

const HfSource::Place& HfSource::find(const HfTensor& wanted) const {
  const auto found = tensors_.find(plain(wanted.name));
  if (found == tensors_.end()) {
    throw Error(ExitCode::bad_data,
                fmt::format("{}: tensor {} is missing", directory_, wanted.name),
                "the weights do not fit config.json");
  }
  const auto& [file, tensor] = found->second;
  if (!holds_floats(tensor->type)) {
    throw Error(
        ExitCode::bad_data,
        fmt::format("{}: tensor {} is of type {}", file->path(), tensor->name, tensor->type),
        "store weights as F32, BF16 or F16");
  }
  if (tensor->shape != wanted.shape()) {
    throw Error(
        ExitCode::bad_data,
        fmt::format("{}: tensor {} is {} [{}], config.json wants [{}]", file->path(), tensor->name,
                    tensor->type, fmt::join(tensor->shape, ", "), fmt::join(wanted.shape(), ", ")),
        "the weights do not fit config.json");
  }
  return found->second;
}

std::string HfSource::plain(const std::string& name) const {
  return name.starts_with(prefix_) ? name.substr(prefix_.size()) : name;
}

void HfSource::add(Fs& fs, const std::string& name) {
  auto file = std::make_unique<File>();
  file->mapping = fs.map(join_path(directory_, name));
  file->content = open_safetensors(*file->mapping);
  for (const StTensor& tensor : file->content.tensors) {
    const auto [entry, fresh] =
        tensors_.emplace(plain(tensor.name), Place{file->mapping.get(), &tensor});
    if (fresh) continue;
    throw Error(ExitCode::bad_data,
                fmt::format("{}: tensor {} is in {}, too", file->mapping->path(), tensor.name,
                            entry->second.first->path()),
                "nothing tells which one is right: download the model again");
  }
  files_.push_back(std::move(file));
}

}  // namespace stretto
