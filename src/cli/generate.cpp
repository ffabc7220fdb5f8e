// stretto generate: continues a text.
#include "train/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/units.h"
#include "checkpoint/store.h"
#include "cli/checkpoint_text.h"
#include "cli/device_option.h"
#include "cli/verbs.h"
#include "data/encoder.h"
#include "train/evaluate.h"
#include "train/rank_backend.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Continues a text with a trained model\n\n"
    "Examples:\n"
    "  stretto generate runs/a --prompt \"Once upon a time\"\n"
    "  stretto generate runs/a --prompt \"ROMEO:\" -n 400 --temperature 0.8 --seed 7\n"
    "  stretto generate runs/a/checkpoints/step-500 --temperature 0   the likeliest text\n";

struct Options {
  std::string checkpoint, prompt, tokenizer;
  int64_t tokens = 200;
  double temperature = 0.8, top_p = 1;
  int64_t top_k = 0, seed = 0, threads = 0;
  DeviceOption device;
};

void check(const Options& o) {
  o.device.check();
  if (o.temperature >= 0 && o.top_p > 0 && o.top_p <= 1 && o.top_k >= 0 && o.tokens > 0) return;
  throw Error(
      ExitCode::usage,
      fmt::format("--temperature {} --top-p {} --top-k {} --tokens {}", o.temperature, o.top_p,
                  o.top_k, o.tokens),
      "temperature and top-k must not be negative, top-p must be in (0, 1], tokens above 0");
}

// Ids without a text: a model's vocabulary may be padded beyond its tokenizer's, whose ids may
// leave gaps. Such ids are never drawn.
std::vector<int32_t> unknown_ids(const Tokenizer& tokenizer, int64_t vocab) {
  std::vector<int32_t> out;
  for (int32_t id = 0; id < vocab; ++id) {
    if (id >= tokenizer.vocab_size() || tokenizer.bytes_of(id).empty()) out.push_back(id);
  }
  return out;
}

std::vector<float> without(std::vector<float> logits, const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) {
    logits[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
  return logits;
}

// The model after it has read the prompt.
struct Reader {
  std::unique_ptr<Comm> self = make_self_comm();
  std::unique_ptr<Backend> backend;
  Decoder decoder;
  RollingDecoder rolling{decoder};
  const std::vector<float>* logits = nullptr;

  Reader(const Config& config, const Checkpoint& checkpoint, const std::vector<int32_t>& prompt,
         int64_t tokens)
      : backend(make_rank_backend(config, *self)), decoder(*backend, checkpoint, config, tokens) {
    for (const int32_t token : prompt) logits = &rolling.next(token);
  }
};

void generate(const Options& o) {
  check(o);
  const Checkpoint checkpoint = checkpoint_at(posix_fs(), o.checkpoint);
  const Config model = eval_config(checkpoint);
  const Tokenizer tokenizer = tokenizer_for(checkpoint, o.tokenizer);
  std::vector<int32_t> prompt;
  Encoder(tokenizer).encode(o.prompt, prompt);
  const auto end = tokenizer.end_of_document();
  if (prompt.empty()) prompt.push_back(end.value_or(tokenizer.byte_id('\n')));
  const auto given = static_cast<int64_t>(prompt.size());
  const int64_t limit = context_limit(model);
  if (given > limit) {
    throw Error(ExitCode::usage,
                fmt::format("the prompt has {} tokens, the model reads {} at once", given, limit),
                "give a shorter prompt");
  }
  std::unique_ptr<Reader> reader;
  o.device.run(checkpoint, [&](Device device) {
    Config config = eval_config(checkpoint, device);
    config.tf32 = false;
    if (o.threads > 0) config.threads = o.threads;
    reader =
        std::make_unique<Reader>(config, checkpoint, prompt, std::min(given + o.tokens, limit));
  });
  fmt::print("{}", for_stdout(o.prompt));
  std::fflush(stdout);
  const SamplingOptions sampling{o.temperature, o.top_k, o.top_p, static_cast<uint64_t>(o.seed)};
  const std::vector<int32_t> unknown = unknown_ids(tokenizer, model.model.vocab);
  StreamDecoder text(tokenizer);
  const std::vector<float>* logits = reader->logits;
  const double start = clock_seconds();
  int64_t made = 0;
  while (made < o.tokens) {
    const int32_t token =
        sample_token(without(*logits, unknown), sampling, static_cast<uint64_t>(made));
    if (end && token == *end) break;
    ++made;
    fmt::print("{}", for_stdout(text.push(token)));
    std::fflush(stdout);
    if (made < o.tokens) logits = &reader->rolling.next(token);
  }
  fmt::print("{}\n", text.finish());
  std::fflush(stdout);
  const double seconds = clock_seconds() - start;
  spdlog::info("{} in {:.2f} s, {:.1f} per second{}", counted(made, "token"), seconds,
               static_cast<double>(made) / seconds,
               reader->rolling.forgot()
                   ? fmt::format("; the model reads {} at once, older ones were forgotten", limit)
                   : "");
}

}  // namespace

void add_generate(Command& app) {
  Command* verb = app.add_subcommand("generate", kHelp);
  auto o = std::make_shared<Options>();
  verb->add_option("CHECKPOINT", o->checkpoint, "a run, or one step-N of it")
      ->required()
      ->directory();
  verb->add_option("-p,--prompt", o->prompt, "the text to continue")->may_be_empty();
  verb->add_option("-n,--tokens", o->tokens, "how many to add")
      ->capture_default_str()
      ->between(0, 1e9);
  verb->add_option("-t,--temperature", o->temperature, "0: always the likeliest token")
      ->capture_default_str()
      ->between(0, 1e6);
  verb->add_option("--top-k", o->top_k, "choose among the k likeliest; 0: all")
      ->capture_default_str();
  verb->add_option("--top-p", o->top_p, "choose among the likeliest that have this probability")
      ->capture_default_str();
  verb->add_option("--seed", o->seed, "the same seed gives the same text on the same device")
      ->capture_default_str();
  o->device.add_to(*verb);
  verb->add_option("--threads", o->threads, "0: all cores")
      ->capture_default_str()
      ->between(0, 4096);
  verb->add_option("--tokenizer", o->tokenizer, "instead of the one the run names")->file();
  verb->callback([o] { generate(*o); });
}

}  // namespace stretto::cli
