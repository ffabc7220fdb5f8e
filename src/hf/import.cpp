#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/strict_json.h"
#include "checkpoint/store.h"
#include "config/config.h"
#include "config/serialize.h"
#include "data/tokenizer.h"
#include "hf/exchange.h"
#include "hf/families.h"

namespace stretto {
namespace {

using nlohmann::json;

constexpr int64_t kMaxConfigBytes = 1 << 20, kMaxIndexBytes = 64 << 20;
constexpr int64_t kMaxLayers = 1 << 20;

struct SourceFile {
  std::unique_ptr<MappedFile> mapping;
  Safetensors content;
};

// All tensors of a directory by name, without a prefix that only some writers use.
class SourceTensors {
 public:
  SourceTensors(Fs& fs, const std::string& directory) : directory_(directory) {
    const std::string index = join_path(directory, "model.safetensors.index.json");
    if (!fs.info(index)) {
      add(fs, "model.safetensors");
      return;
    }
    const json document = parse_json(read_file(fs, index, kMaxIndexBytes), index);
    std::vector<std::string> names;
    const bool valid = document.is_object() && document.contains("weight_map") &&
                       document["weight_map"].is_object();
    for (const auto& item : valid ? document["weight_map"] : json::object()) {
      if (item.is_string()) names.push_back(item.get<std::string>());
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (const std::string& name : names) {
      if (name.find('/') != std::string::npos || name.empty() || name[0] == '.') {
        throw Error(ExitCode::bad_data,
                    fmt::format("{}: '{}' is not the name of a file beside it", index, name),
                    "put all files of the model into one directory, and name them so");
      }
      add(fs, name);
    }
  }

  size_t files() const { return files_.size(); }
  size_t tensors() const { return tensors_.size(); }

  // One more than the highest layer number in the names of tensors. Throws bad_data for an
  // impossible number.
  int64_t layers() const {
    int64_t count = 0;
    for (const auto& [name, place] : tensors_) {
      const std::string_view prefix = name.starts_with("blocks.") ? "blocks." : "h.";
      if (!name.starts_with(prefix)) continue;
      int64_t layer = 0;
      const char *begin = name.data() + prefix.size(), *end = name.data() + name.size();
      const auto [after, error] = std::from_chars(begin, end, layer);
      const bool numbered = error != std::errc::invalid_argument && after < end && *after == '.';
      if (!numbered) continue;
      if (error != std::errc() || layer < 0 || layer >= kMaxLayers) {
        throw Error(ExitCode::bad_data,
                    fmt::format("{}: tensor {} has an impossible layer number", place.first->path(),
                                place.second->name),
                    "the weights do not fit config.json");
      }
      count = std::max(count, layer + 1);
    }
    return count;
  }

  bool has(const HfTensor& wanted) const { return tensors_.count(plain(wanted.name)) > 0; }
  // Throws bad_data unless the tensor is there, with a usable type and the shape that config.json
  // promises.
  void require(const HfTensor& wanted) const { find(wanted); }

  std::vector<float> read(const HfTensor& wanted) const {
    const auto& [file, tensor] = find(wanted);
    std::vector<char> bytes(static_cast<size_t>(tensor->end - tensor->begin));
    file->copy(bytes.data(), bytes.size(), tensor->begin);
    file->require_whole();
    std::vector<float> values(static_cast<size_t>(tensor->count()));
    floats_from(values.data(), bytes.data(), *dtype_of(tensor->type), tensor->count());
    require_finite(values.data(), tensor->count(), file->path(), tensor->name);
    return values;
  }

 private:
  using Place = std::pair<const MappedFile*, const StTensor*>;

  const Place& find(const HfTensor& wanted) const {
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
      throw Error(ExitCode::bad_data,
                  fmt::format("{}: tensor {} is {} [{}], config.json wants [{}]", file->path(),
                              tensor->name, tensor->type, fmt::join(tensor->shape, ", "),
                              fmt::join(wanted.shape(), ", ")),
                  "the weights do not fit config.json");
    }
    return found->second;
  }
  static std::string plain(const std::string& name) {
    constexpr std::string_view kPrefix = "transformer.";
    return name.rfind(kPrefix, 0) == 0 ? name.substr(kPrefix.size()) : name;
  }
  void add(Fs& fs, const std::string& name) {
    auto file = std::make_unique<SourceFile>();
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

  std::string directory_;
  std::vector<std::unique_ptr<SourceFile>> files_;
  std::map<std::string, Place> tensors_;
};

// A model without biases may have zeros in their place. Other programs train these, and then they
// are no longer zero.
bool has_other_than_zeros(const HfTensor& tensor, const SourceTensors& source) {
  if (!source.has(tensor)) return false;
  const std::vector<float> values = source.read(tensor);
  return std::any_of(values.begin(), values.end(), [](float x) { return x != 0; });
}

// Whether the files hold a head other than the embedding. With tied embeddings nobody reads it.
bool has_other_head(ModelShape model, HfFamily family, const SourceTensors& source) {
  if (!model.tied_embedding) return false;
  model.tied_embedding = false;
  const std::vector<HfTensor> tensors = hf_tensors(family, model);
  const auto named = [&](const char* name) {
    return *std::ranges::find(tensors, name, [](const HfTensor& t) { return t.spec.name; });
  };
  const HfTensor head = named("head");
  if (!source.has(head)) return false;
  try {
    return source.read(head) != source.read(named("wte"));
  } catch (const Error&) {
    return true;  // it has not even the embedding's shape
  }
}

// The tensors that the files must hold for this model. config.json may claim any size, so every
// tensor must be found in the files, whose sizes are real, before anything is allocated for it.
// `model` gets biases if the files have other than zeros for them.
std::vector<HfTensor> tensors_of(ModelShape& model, HfFamily family, const SourceTensors& source,
                                 const std::string& config_path) {
  if (model.layers > static_cast<int64_t>(source.tensors())) {
    throw Error(ExitCode::bad_data,
                fmt::format("{}: {} layers, but the files hold {} tensors", config_path,
                            model.layers, source.tensors()),
                "the weights do not fit config.json");
  }
  if (source.layers() > model.layers) {
    throw Error(ExitCode::bad_data,
                fmt::format("{}: {} layers, but the files hold tensors of {}", config_path,
                            model.layers, source.layers()),
                "the weights do not fit config.json");
  }
  std::vector<HfTensor> tensors = hf_tensors(family, model);
  if (std::any_of(tensors.begin(), tensors.end(), [&](const HfTensor& tensor) {
        return tensor.absent && has_other_than_zeros(tensor, source);
      })) {
    spdlog::info(
        "{} says that there are no biases, but the files have some: they are imported, too",
        config_path);
    model.biases = Biases::all_or_none(true);
    tensors = hf_tensors(family, model);
  }
  std::erase_if(tensors, [](const HfTensor& tensor) { return tensor.absent; });
  for (const HfTensor& tensor : tensors) source.require(tensor);
  if (has_other_head(model, family, source)) {
    spdlog::warn(
        "{} ties the head to the embedding, but the files have another one: it is not read; if "
        "the model was trained with it, set tie_word_embeddings to false there",
        config_path);
  }
  return tensors;
}

void copy_values(const HfTensor& tensor, const std::vector<float>& stored, char* out) {
  const int64_t rows = tensor.spec.rows, columns = tensor.spec.columns;
  auto* values = reinterpret_cast<float*>(out);  // shards are aligned and hold f32 only
  if (!tensor.transposed) {
    std::copy(stored.begin(), stored.end(), values);
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      values[r * columns + c] = stored[static_cast<size_t>(c * rows + r)];
    }
  }
}

// The tokenizer beside the weights, in either form. None if there is none or it cannot be used: the
// model can be used without.
std::optional<Tokenizer> tokenizer_beside(Fs& fs, const std::string& directory,
                                          const ModelShape& model) {
  const bool there =
      fs.info(join_path(directory, "tokenizer.json")) ||
      (fs.info(join_path(directory, "vocab.json")) && fs.info(join_path(directory, "merges.txt")));
  if (!there) return std::nullopt;
  try {
    Tokenizer tokenizer = load_tokenizer(directory, fs);
    require_vocab(tokenizer, model.vocab, directory);
    return tokenizer;
  } catch (const Error& error) {
    spdlog::warn("imported without its tokenizer ({}): `generate` will need --tokenizer",
                 error.what());
    return std::nullopt;
  }
}

bool is_same(Fs& fs, const Tokenizer& tokenizer, const std::string& path) {
  try {
    return same_tokenizer(tokenizer, load_tokenizer(path, fs));
  } catch (const Error&) {
    return false;  // unreadable
  }
}

[[noreturn]] void refuse_to_replace(const std::string& path) {
  throw Error(ExitCode::cannot_create, fmt::format("{} exists already", path),
              "give a new directory with -o");
}

// Writes the tokenizer where a run keeps it. A different one that is there already belongs to
// something else.
void put_tokenizer(Fs& fs, const Tokenizer& tokenizer, const std::string& path) {
  if (fs.info(path)) {
    if (is_same(fs, tokenizer, path)) return;
    refuse_to_replace(path);
  }
  write_file_atomic(fs, path, tokenizer_to_json(tokenizer));
}

// Writes model.yaml, from which `train` reads the model.
void put_model(Fs& fs, const Config& config, const std::string& path) {
  const std::string text = model_yaml(config);
  if (fs.info(path)) {
    if (read_file(fs, path, kMaxConfigBytes) == text) return;
    refuse_to_replace(path);
  }
  write_file_atomic(fs, path, text);
}

// The model's name in logs and tables: that of its directory, or `otherwise` if no usable character
// remains.
std::string name_after(const std::string& directory, const std::string& otherwise) {
  constexpr size_t kLongest = 100;
  std::filesystem::path path = std::filesystem::path(directory).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::string name = path.filename().string();
  if (name == "." || name == "..") {
    std::error_code failed;
    path = std::filesystem::absolute(directory, failed).lexically_normal();
    name = (path.has_filename() ? path : path.parent_path()).filename().string();
  }
  std::string safe;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool inside = c == '.' || c == '_' || c == '-';
    if (letter || (inside && !safe.empty())) safe += c;
  }
  return safe.empty() ? otherwise : safe.substr(0, kLongest);
}

}  // namespace

ExchangeResult import_hf(Fs& fs, const std::string& directory, const std::string& run_directory,
                         const std::function<bool()>& stop) {
  const auto stop_here = [&] {
    if (!stop || !stop()) return;
    throw Error(ExitCode::resumable, "stopped before the end; no checkpoint was written",
                "run the same command again");
  };
  const std::string config_path = join_path(directory, "config.json");
  Config config;
  const std::string text = read_file(fs, config_path, kMaxConfigBytes);
  config.model = model_from_hf_config(text, config_path);
  config.model.name = name_after(directory, config.model.name);
  config.seq_len = trained_length(text, config.model);
  const HfFamily family = family_of(config.model);
  const SourceTensors source(fs, directory);
  const std::vector<HfTensor> tensors = tensors_of(config.model, family, source, config_path);

  Shard shard;
  for (const HfTensor& tensor : tensors) {
    const ParameterSpec& spec = tensor.spec;
    std::vector<int64_t> shape = {spec.rows};
    if (!spec.vector()) shape.push_back(spec.columns);
    shard.add(spec.name, {shape, {{0, spec.count(), 0, 1}}}, DType::f32);
  }
  shard.allocate(0);
  for (size_t i = 0; i < tensors.size(); ++i) {
    stop_here();
    copy_values(tensors[i], source.read(tensors[i]), shard.at(i));
  }

  CheckpointStore store(fs, join_path(run_directory, "checkpoints"));
  if (!store.steps().empty()) {
    throw Error(ExitCode::cannot_create, fmt::format("{} has checkpoints already", store.root()),
                "give a new directory with -o");
  }
  store.drop_leftovers();  // of an import that was killed; whoever calls has the directory locked
  ExchangeResult result{name_of(family), tensors.size(), source.files(), shard.bytes, false};
  const std::optional<Tokenizer> tokenizer = tokenizer_beside(fs, directory, config.model);
  make_dirs(fs, run_directory);
  put_model(fs, config, join_path(run_directory, "model.yaml"));
  if (tokenizer) {
    config.data.tokenizer = join_path(run_directory, "tokenizer.json");
    put_tokenizer(fs, *tokenizer, config.data.tokenizer);
    result.tokenizer = true;
  }
  const auto nonce = std::chrono::system_clock::now().time_since_epoch().count();
  const std::string temp = store.begin(0, static_cast<uint64_t>(nonce), shard_file_bytes(shard, 0));
  try {
    store.write_part(temp, 0, shard, 0);
    stop_here();
    // No loss scale and no moments: training starts from these weights.
    const json state = {{"step", 0},          {"updates", 0},          {"consumed_samples", 0},
                        {"skipped_total", 0}, {"skipped_in_a_row", 0}, {"nan_total", 0}};
    // A path may be no valid text. The copy in the run's directory is found without it.
    const auto replace = json::error_handler_t::replace;
    store.commit(temp, 1, {0, to_json(config).dump(-1, ' ', false, replace), state.dump(), {}});
  } catch (...) {
    store.drop(temp);
    throw;
  }
  return result;
}

}  // namespace stretto
