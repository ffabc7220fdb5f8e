#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "config/config.h"
#include "config/problems.h"
#include "config/serialize.h"
#include "data/tokenizer.h"
#include "hf/exchange.h"
#include "hf/family.h"

namespace stretto {
namespace {

using nlohmann::json;

void write_new(Fs& fs, const std::string& path, std::string_view content) {
  const auto file = fs.create(path);
  file->append(content);
  file->sync();
  file->close();
}

// The values of a tensor in the layout of its file.
std::vector<float> stored_values(const Checkpoint& checkpoint, const HfTensor& tensor) {
  if (tensor.absent) return std::vector<float>(static_cast<size_t>(tensor.count()), 0.0f);
  const TensorReader reader = checkpoint.reader(tensor.spec.name);
  if (reader.count() != tensor.spec.count()) {
    throw Error(ExitCode::bad_data,
                fmt::format("{}: {} has {} elements, its model needs {}", checkpoint.path(),
                            tensor.spec.name, reader.count(), tensor.spec.count()),
                "use another checkpoint");
  }
  std::vector<float> ours(static_cast<size_t>(reader.count()));
  reader.read(0, reader.count(), ours.data());
  if (tensor.same_layout()) return ours;
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  to_stored(tensor, ours.data(), values.data());
  return values;
}

const char* stored_name(DType type) {
  return type == DType::bf16 ? "BF16" : type == DType::f16 ? "F16" : "F32";
}

// Rounds to nearest even. Refuses values beyond fp16's range, which would be read as infinity.
std::vector<uint16_t> narrowed(const std::vector<float>& values, DType type,
                               const std::string& name) {
  constexpr float kMostF16 = 65504;
  std::vector<uint16_t> bits(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    bits[i] = type == DType::bf16 ? to_bf16(values[i]).bits : to_f16(values[i]).bits;
    if (type == DType::f16 && std::abs(to_float(f16_t{bits[i]})) > kMostF16) {
      throw Error(ExitCode::bad_data,
                  fmt::format("{} contains {:g}, which fp16 cannot represent", name, values[i]),
                  "use --dtype bf16 or fp32");
    }
  }
  return bits;
}

void write_tensors(Fs& fs, const std::string& path, const Checkpoint& checkpoint,
                   const std::vector<HfTensor>& tensors, const ExportOptions& options) {
  std::vector<StTensor> entries;
  entries.reserve(tensors.size());
  for (const HfTensor& tensor : tensors)
    entries.push_back({tensor.name, stored_name(options.dtype), tensor.shape(), 0, 0});
  const std::string head = safetensors_head(entries, {{"format", "pt"}});
  const auto file = fs.create(path);
  file->preallocate(entries.empty() ? 0 : entries.back().end);
  file->append(head);
  for (const HfTensor& tensor : tensors) {
    if (options.stop && options.stop()) {
      throw Error(ExitCode::resumable, "stopped before the end; nothing was written",
                  "run the same command again");
    }
    const std::vector<float> values = stored_values(checkpoint, tensor);
    if (options.dtype == DType::f32) {
      file->append({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
      continue;
    }
    const std::vector<uint16_t> narrow = narrowed(values, options.dtype, tensor.name);
    file->append({reinterpret_cast<const char*>(narrow.data()), narrow.size() * sizeof(uint16_t)});
  }
  file->sync();
  file->close();
}

// Splits the list so that no file exceeds `limit`, unless a single tensor does.
std::vector<std::vector<HfTensor>> cut(std::vector<HfTensor> tensors, int64_t limit,
                                       int64_t element) {
  std::vector<std::vector<HfTensor>> files(1);
  int64_t bytes = 0;
  for (HfTensor& tensor : tensors) {
    const int64_t size = element * tensor.count();
    if (bytes + size > limit && !files.back().empty()) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += size;
    files.back().push_back(std::move(tensor));
  }
  return files;
}

void write_model(Fs& fs, const std::string& directory, const Checkpoint& checkpoint,
                 const std::vector<std::vector<HfTensor>>& files, int64_t bytes,
                 const ExportOptions& options) {
  if (files.size() == 1) {
    write_tensors(fs, join_path(directory, "model.safetensors"), checkpoint, files[0], options);
    return;
  }
  json map = json::object();
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = fmt::format("model-{:05d}-of-{:05d}.safetensors", i + 1, files.size());
    write_tensors(fs, join_path(directory, name), checkpoint, files[i], options);
    for (const HfTensor& tensor : files[i]) map[tensor.name] = name;
  }
  const json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  write_new(fs, join_path(directory, "model.safetensors.index.json"), index.dump(2) + "\n");
}

// The tokenizer of that name; none for an empty one.
std::optional<Tokenizer> tokenizer_called(const std::string& name, int64_t vocab, Fs& fs) {
  if (name.empty()) return std::nullopt;
  Tokenizer tokenizer = name == "bytes" ? byte_tokenizer() : load_tokenizer(name, fs);
  require_vocab(tokenizer, vocab, name);
  return tokenizer;
}

// `reads`: the longest text that the model can read.
void write_tokenizer(Fs& fs, const std::string& directory, const Tokenizer& tokenizer,
                     int64_t reads, int64_t end_token) {
  write_new(fs, join_path(directory, "tokenizer.json"), tokenizer_to_json(tokenizer));
  json settings = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                   {"model_max_length", reads},
                   // Before transformers 5 the default adds token_type_ids, which GPT-2 takes for
                   // tokens to add to each position, and MPT refuses.
                   {"model_input_names", {"input_ids", "attention_mask"}},
                   {"add_prefix_space", tokenizer.spec().prefix_space},
                   {"clean_up_tokenization_spaces", false}};
  if (end_token >= 0) {
    settings["bos_token"] = settings["eos_token"] = settings["unk_token"] =
        std::string(tokenizer.bytes_of(static_cast<int32_t>(end_token)));
  }
  write_new(fs, join_path(directory, "tokenizer_config.json"), settings.dump(2) + "\n");
}

// Throws if no family holds the model, and warns if readers will compute something else.
const HfFamily& family_for(const Config& config) {
  const HfChoice choice = choose_family(config.model);
  Problems problems;
  for (const Finding& f : choice.findings) {
    if (f.severity == Severity::error) problems.add(describe(f, {config, {}}), f.fix);
  }
  problems.throw_if_any();
  for (const Finding& f : choice.findings) spdlog::warn("{} {}; {}", f.key, f.message, f.fix);
  return *choice.family;
}

}  // namespace

ExchangeResult export_hf(Fs& fs, const Checkpoint& checkpoint, const std::string& directory,
                         const ExportOptions& options) {
  const Config config = config_from_json(json::parse(checkpoint.manifest().config));
  const HfFamily& family = family_for(config);
  const std::optional<Tokenizer> tokenizer =
      tokenizer_called(options.tokenizer, config.model.vocab, fs);
  int64_t end_token = -1;  // none
  if (tokenizer) end_token = tokenizer->end_of_document().value_or(-1);
  if (fs.info(directory)) {
    throw Error(ExitCode::cannot_create, fmt::format("{} exists already", directory),
                "give a new directory with -o");
  }
  make_dirs(fs, parent_dir(directory));
  AtomicDirectory out(fs, directory);
  const std::string& temp = out.temp_path();

  const std::vector<HfTensor> tensors = hf_tensors(family, config.model);
  ExchangeResult result{family.type, tensors.size(), 0, 0, tokenizer.has_value()};
  const auto element = static_cast<int64_t>(dtype_size(options.dtype));
  for (const HfTensor& tensor : tensors) result.bytes += element * tensor.count();
  const auto files = cut(tensors, options.shard_bytes, element);
  result.files = files.size();
  write_model(fs, temp, checkpoint, files, result.bytes, options);
  const bool learned = config.model.position_kind == Positions::learned;
  const int64_t positions = config.model.positions;
  const bool shorter = config.seq_len > 0 && config.seq_len < positions;
  const int64_t trained = shorter ? config.seq_len : positions;
  write_new(fs, join_path(temp, "config.json"),
            hf_config_json(family, {config.model, trained}, end_token, options.dtype));
  json generation = {{"_from_model_config", true}};
  if (end_token >= 0) generation["bos_token_id"] = generation["eos_token_id"] = end_token;
  write_new(fs, join_path(temp, "generation_config.json"), generation.dump(2) + "\n");
  if (tokenizer) {  // with ALiBi longer texts than those of the training can be read
    write_tokenizer(fs, temp, *tokenizer, learned ? trained : positions, end_token);
  }
  out.commit();
  return result;
}

}  // namespace stretto
