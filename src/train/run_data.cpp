#include "train/run_data.h"

#include "data/token_check.h"
#include "data/tokenizer.h"
#include "train/run_tokenizer.h"

namespace stretto {
namespace {

bool is_text(const TokenSource& source) { return source.format() == "bytes"; }

bool means_bytes(const std::string& tokenizer) {
  if (tokenizer == "bytes") return true;
  try {
    return same_tokenizer(load_tokenizer(tokenizer), byte_tokenizer());
  } catch (const Error&) {
    return false;  // unreadable: other code reports that
  }
}

// The model's tokenizer: the one that the configuration names, else the one that an import or an
// earlier run has left in the run's directory. Empty if none is known.
std::string tokenizer_name(const Config& config) {
  if (!config.data.tokenizer.empty()) return config.data.tokenizer;
  return kept_tokenizer(posix_fs(), config.output) ? tokenizer_copy(config.output) : "";
}

// Refuses a text where the model has a tokenizer: it would be read byte by byte, and its samples
// would be decoded as tokens.
void require_tokens(const Config& config, const TokenSource& source) {
  if (!is_text(source)) return;
  const std::string tokenizer = tokenizer_name(config);
  if (tokenizer.empty() || means_bytes(tokenizer)) return;
  throw Error(ExitCode::bad_config,
              fmt::format("data.path={} is text, but {}{}", source.name(),
                          config.data.tokenizer.empty() ? "the model has a tokenizer: "
                                                        : "data.tokenizer is given: ",
                          tokenizer),
              fmt::format("stretto data prepare {} --tokenizer {} -o NAME, then "
                          "data.path=NAME.bin; or set data.tokenizer=bytes to train on bytes",
                          source.name(), tokenizer));
}

// Refuses to train on bytes and evaluate on a tokenizer's ids, or the other way round.
void require_alike(const Config& config, const TokenSource& source, const TokenSource& eval) {
  if (is_text(source) == is_text(eval)) return;
  const std::string tokenizer = tokenizer_name(config);
  const bool small = config.model.vocab <= 256;  // too small for anything but bytes
  if (small && (tokenizer.empty() || means_bytes(tokenizer))) return;
  const auto kind = [](const TokenSource& s) { return is_text(s) ? "is text" : "holds tokens"; };
  const bool path = is_text(source);
  throw Error(
      ExitCode::bad_config,
      fmt::format("data.path={} {}, data.eval_path={} {}", source.name(), kind(source), eval.name(),
                  kind(eval)),
      fmt::format("convert the text to tokens with the other tokenizer: stretto data "
                  "prepare {} --tokenizer {} -o NAME, then {}=NAME.bin",
                  (path ? source : eval).name(), tokenizer.empty() ? "tokenizer.json" : tokenizer,
                  path ? "data.path" : "data.eval_path"));
}

RunData open_sources(const Config& config) {
  RunData data;
  if (config.data.path.empty()) {
    data.source = synthetic_tokens(config.seed, config.model.vocab);
    return data;
  }
  data.source = open_tokens(config.data.path, config.data.format);
  require_tokens(config, *data.source);
  if (config.data.eval_path.empty()) return data;
  data.eval_source = open_tokens(config.data.eval_path, config.data.format);
  require_alike(config, *data.source, *data.eval_source);
  return data;
}

}  // namespace

RunData open_run_data(const Config& config, int part, int parts) {
  RunData data = open_sources(config);
  data.mark = mark_of(*data.source);
  if (data.eval_source) data.eval_mark = mark_of(*data.eval_source);
  const bool evaluates = config.train.eval_every > 0;
  train_on(data, config,
           evaluates ? tokens_before_tail(config, *data.source) : data.source->tokens());
  if (!config.data.path.empty()) look_over(*data.source, config.model.vocab, part, parts);
  if (data.eval_source) look_over(*data.eval_source, config.model.vocab, part, parts);
  return data;
}

void train_on(RunData& data, const Config& config, int64_t tokens) {
  const int64_t all = data.source->tokens();
  SamplerOptions options;
  options.seq_len = config.seq_len;
  options.vocab = config.model.vocab;
  options.seed = config.seed;
  options.range = {0, tokens};
  data.train = std::make_unique<Sampler>(*data.source, options);
  data.mark.trained = tokens;
  data.held_out.reset();
  const bool tail = !data.eval_source && all - tokens > config.seq_len;
  if (!data.eval_source && !tail) return;
  options.range = tail ? TokenRange{tokens, all} : TokenRange{};
  options.shuffle = false;
  data.held_out = std::make_unique<Sampler>(tail ? *data.source : *data.eval_source, options);
}

int64_t tokens_before_tail(const Config& config, const TokenSource& source) {
  const bool all = config.data.path.empty() || !config.data.eval_path.empty();
  return split_tail(source, config.seq_len, all ? 0 : config.data.eval_fraction).first.end;
}

}  // namespace stretto
