#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint/store.h"
#include "config/config.h"
#include "config/serialize.h"
#include "data/tokenizer.h"
#include "hf/exchange.h"
#include "hf/family.h"
#include "hf/source.h"

namespace stretto {
namespace {

using nlohmann::json;

constexpr int64_t kMaxConfigBytes = 1 << 20;

// A model without biases may have zeros in their place. Other programs train these, and then they
// are no longer zero.
bool has_other_than_zeros(const HfTensor& tensor, const HfSource& source) {
  if (!source.has(tensor.name)) return false;
  const std::vector<float> values = source.read(tensor);
  return std::any_of(values.begin(), values.end(), [](float x) { return x != 0; });
}

// A head beside an embedding that config.json ties to it must be a copy of that. Readers differ in
// which one they take. Returns the head's name, empty if there is none.
std::string copied_head(ModelShape model, const HfFamily& family, const HfSource& source,
                        const std::string& config_path) {
  if (!model.tied_embedding) return "";
  model.tied_embedding = false;
  const std::vector<HfTensor> tensors = hf_tensors(family, model);
  const auto named = [&](const char* name) {
    return *std::ranges::find(tensors, name, [](const HfTensor& t) { return t.spec.name; });
  };
  const HfTensor head = named("head"), embedding = named("wte");
  if (!source.has(head.name)) return "";
  if (source.read(head) == source.read(embedding)) return head.name;
  throw Error(ExitCode::bad_data,
              fmt::format("{} ties the head to the embedding, but {} is not equal to {}",
                          config_path, head.name, embedding.name),
              fmt::format("set tie_word_embeddings to false there if the model was trained with a "
                          "head of its own; otherwise remove {}",
                          head.name));
}

// Refuses tensors that would be lost.
void require_all_used(const std::vector<HfTensor>& tensors, const std::string& head,
                      const HfFamily& family, const ModelShape& model, const HfSource& source) {
  std::vector<std::string> known = hf_unused(family, model.layers);
  if (!head.empty()) known.push_back(head);
  for (const HfTensor& tensor : tensors) known.push_back(tensor.name);
  std::vector<std::string> others = source.others(known);
  if (others.empty()) return;
  constexpr size_t kShown = 5;
  const size_t shown = std::min(others.size(), kShown), more = others.size() - shown;
  others.resize(shown);
  throw Error(ExitCode::bad_data,
              fmt::format("{}: the {} model that config.json describes, with {}, has no {}{}",
                          source.directory(), family.type, counted(model.layers, "layer"),
                          fmt::join(others, ", "), more > 0 ? fmt::format(" ({} more)", more) : ""),
              "such a model cannot be imported; if nothing reads these tensors, remove them");
}

// The tensors that the files must hold for this model. config.json may claim any size, so every
// tensor must be found in the files, whose sizes are real, before anything is allocated for it.
// `model` gets biases if the files have other than zeros for them.
std::vector<HfTensor> tensors_of(ModelShape& model, const HfFamily& family, const HfSource& source,
                                 const std::string& config_path) {
  if (model.layers > static_cast<int64_t>(source.tensors())) {
    throw Error(ExitCode::bad_data,
                fmt::format("{}: {} layers, but the files hold {} tensors", config_path,
                            model.layers, source.tensors()),
                "the weights do not fit config.json");
  }
  const std::vector<HfTensor> stored = hf_tensors(family, model);
  if (std::any_of(stored.begin(), stored.end(), [&](const HfTensor& tensor) {
        return tensor.absent && has_other_than_zeros(tensor, source);
      })) {
    spdlog::info(
        "{} says that there are no biases, but the files have some: they are imported, too",
        config_path);
    model.biases = Biases::all_or_none(true);
  }
  require_all_used(stored, copied_head(model, family, source, config_path), family, model, source);
  std::vector<HfTensor> tensors = hf_tensors(family, model);
  std::erase_if(tensors, [](const HfTensor& tensor) { return tensor.absent; });
  for (const HfTensor& tensor : tensors) source.require(tensor);
  return tensors;
}

// A shard of all parameters of the model.
Shard whole_shard(const ModelShape& model) {
  Shard shard;
  for (const ParameterSpec& spec : parameter_list(model)) {
    std::vector<int64_t> shape = {spec.rows};
    if (!spec.vector()) shape.push_back(spec.columns);
    shard.add(spec.name, {shape, {{0, spec.count(), 0, 1}}}, DType::f32);
  }
  shard.allocate(0);
  return shard;
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
  const HfConfig theirs = read_hf_config(read_file(fs, config_path, kMaxConfigBytes), config_path);
  const HfFamily& family = *theirs.family;
  config.model = theirs.model.shape;
  config.model.name = name_after(directory, config.model.name);
  config.seq_len = theirs.model.trained;
  const HfSource source(fs, directory, family.prefix);
  const std::vector<HfTensor> tensors = tensors_of(config.model, family, source, config_path);

  Shard shard = whole_shard(config.model);
  std::map<std::string, float*> ours;  // shards are aligned and hold f32 only
  for (size_t i = 0; i < shard.tensors.size(); ++i)
    ours[shard.tensors[i].name] = reinterpret_cast<float*>(shard.at(i));
  for (const HfTensor& tensor : tensors) {
    stop_here();
    from_stored(tensor, source.read(tensor).data(), ours.at(tensor.spec.name));
  }

  CheckpointStore store(fs, join_path(run_directory, "checkpoints"));
  if (!store.steps().empty()) {
    throw Error(ExitCode::cannot_create, fmt::format("{} has checkpoints already", store.root()),
                "give a new directory with -o");
  }
  store.drop_leftovers();  // of an import that was killed; whoever calls has the directory locked
  ExchangeResult result{family.type, tensors.size(), source.files(), shard.bytes, false};
  const std::optional<Tokenizer> tokenizer = tokenizer_beside(fs, directory, config.model);
  make_dirs(fs, run_directory);
  put_model(fs, config, join_path(run_directory, "model.yaml"));
  if (tokenizer) {
    config.data.tokenizer = join_path(run_directory, "tokenizer.json");
    put_tokenizer(fs, *tokenizer, config.data.tokenizer);
    result.tokenizer = true;
  }
  const std::string temp = store.begin(0, fresh_nonce(), shard_file_bytes(shard, 0));
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
