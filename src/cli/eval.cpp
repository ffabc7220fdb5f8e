// stretto eval: how well a model predicts a file.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/units.h"
#include "checkpoint/store.h"
#include "cli/checkpoint_text.h"
#include "cli/device_option.h"
#include "cli/keep_inputs.h"
#include "cli/run_notes.h"
#include "cli/verbs.h"
#include "config/schema.h"
#include "data/encoder.h"
#include "data/plain_text.h"
#include "data/token_source.h"
#include "train/evaluate.h"
#include "train/generate.h"
#include "train/rank_backend.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Loss and perplexity of a trained model on a file\n\n"
    "Examples:\n"
    "  stretto eval runs/a held-out.txt           text, through the run's tokenizer\n"
    "  stretto eval runs/a valid.bin              tokens: Megatron, llm.c or .u16\n"
    "  stretto eval runs/a valid.bin --device cuda --batch 16\n"
    "  stretto eval runs/a valid.bin --json\n";

constexpr int64_t kMaxTextBytes = int64_t{1} << 32;

struct Options {
  std::string checkpoint, file, tokenizer, logits, format = "auto";
  DeviceOption device;
  int64_t threads = 0, batch = 4, tokens = 0;
  bool json = false;
};

// Token files are read as they are; any other file is taken for text.
std::unique_ptr<TokenSource> tokens_of(const Options& o, const Checkpoint& checkpoint) {
  const TokenFormat format = parse_token_format(o.format);
  auto source = open_tokens(o.file, format);
  const std::string note = json_note(o.file, format, "--format bytes");
  if (!note.empty()) spdlog::warn("{}", note);
  if (source->format() != "bytes") return source;
  const std::string name = tokenizer_name(checkpoint, o.tokenizer);
  if (name == "bytes" || (name.empty() && format == TokenFormat::bytes)) return source;
  const Tokenizer tokenizer = tokenizer_for(checkpoint, o.tokenizer);
  if (source->tokens() > kMaxTextBytes) {
    throw Error(
        ExitCode::bad_data,
        fmt::format("{} is longer than the text that can be encoded at once ({})",
                    printable(o.file), format_bytes(static_cast<double>(source->tokens()))),
        fmt::format("stretto data prepare {} --tokenizer {} -o NAME, then evaluate NAME.bin",
                    o.file, name));
  }
  const int64_t begin = format == TokenFormat::bytes ? 0 : text_begin(*posix_fs().open(o.file));
  const std::string text = read_file(posix_fs(), o.file, kMaxTextBytes);
  std::vector<int32_t> ids;
  Encoder(tokenizer).encode(std::string_view(text).substr(static_cast<size_t>(begin)), ids);
  return memory_tokens(o.file, std::move(ids));
}

// Writes the logits of the first sequence, (tokens, vocab) f32, to be compared with other programs.
void write_logits(const Options& o, Config config, const Checkpoint& checkpoint,
                  const TokenSource& source) {
  config.tf32 = false;
  config.precision = Precision::fp32;
  std::vector<int32_t> ids(static_cast<size_t>(std::min(config.seq_len, source.tokens())));
  source.read(0, ids);
  const auto self = make_self_comm();
  const auto backend = make_rank_backend(config, *self);
  Decoder decoder(*backend, checkpoint, config, config.seq_len);
  AtomicFile out(posix_fs(), o.logits);
  for (const int32_t id : ids) {
    const std::vector<float>& logits = decoder.next(id);
    out.file().append(
        {reinterpret_cast<const char*>(logits.data()), logits.size() * sizeof(float)});
  }
  out.commit();
}

void evaluate(const Options& o) {
  o.device.check();
  keep_inputs("--logits", o.logits, {o.logits}, {o.checkpoint, o.file, o.tokenizer});
  const Checkpoint checkpoint = checkpoint_at(posix_fs(), o.checkpoint);
  EvalSettings settings;
  settings.batch = o.batch;
  settings.max_tokens = o.tokens;
  const auto source = tokens_of(o, checkpoint);
  EvalResult result;
  o.device.run(checkpoint, [&](Device device) {
    settings.config = eval_config(checkpoint, device);
    if (o.threads > 0) settings.config.threads = o.threads;
    result = evaluate_tokens(checkpoint, *source, settings);
    if (!o.logits.empty()) write_logits(o, settings.config, checkpoint, *source);
  });
  const double perplexity = std::exp(result.loss);
  if (o.json) {
    print_json(nlohmann::json{{"checkpoint", checkpoint.path()},
                              {"file", o.file},
                              {"device", name_of(settings.config.device)},
                              {"loss", result.loss},
                              {"perplexity", perplexity},
                              {"tokens", result.tokens}},
               -1);
    return;
  }
  fmt::print("{}", for_stdout(fmt::format(
                       "loss {:.4f} | perplexity {:.2f} | {} in sequences of {} | {} | {}\n",
                       result.loss, perplexity, counted(result.tokens, "token"), result.seq_len,
                       name_of(settings.config.device), checkpoint.path())));
}

}  // namespace

void add_eval(Command& app) {
  Command* verb = app.add_subcommand("eval", kHelp);
  auto o = std::make_shared<Options>();
  verb->add_option("CHECKPOINT", o->checkpoint, "a run, or one step-N of it")
      ->required()
      ->directory();
  verb->add_option("FILE", o->file, "text or tokens")->required()->file();
  verb->add_option("--tokenizer", o->tokenizer, "instead of the one the run names")->file();
  verb->add_option("--format", o->format, "auto, megatron, llmc, u16 (raw, nanoGPT) or bytes")
      ->offers(find_key("data.format")->words)
      ->capture_default_str();
  verb->add_option("--tokens", o->tokens, "about this many, in whole sequences; 0: the whole file")
      ->capture_default_str()
      ->between(0, 1e15);
  verb->add_option("--batch", o->batch, "sequences at a time")
      ->capture_default_str()
      ->between(1, 65536);
  o->device.add_to(*verb);
  verb->add_option("--threads", o->threads, "0: all cores")
      ->capture_default_str()
      ->between(0, 4096);
  verb->add_option("--logits", o->logits,
                   "also writes the first sequence's logits, raw f32, computed in f32")
      ->file();
  verb->add_flag("--json", o->json, "machine-readable");
  verb->callback([o] { evaluate(*o); });
}

}  // namespace stretto::cli
