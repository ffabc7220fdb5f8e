#include "cli/checkpoint_text.h"

#include "base/error.h"
#include "base/fs.h"
#include "checkpoint/store.h"
#include "train/checkpoint.h"

namespace stretto::cli {
namespace {

// The files of a run may be elsewhere by now.
bool names_tokens(const DataConfig& data) {
  if (data.format != TokenFormat::detect) return data.format != TokenFormat::bytes;
  return data.path.ends_with(".bin") || data.path.ends_with(".idx") || data.path.ends_with(".u16");
}

}  // namespace

std::string tokenizer_path(const Checkpoint& checkpoint, const Config& config,
                           const std::string& given) {
  const std::string run = given.empty() ? run_directory_of(checkpoint) : "";
  if (!run.empty()) {
    const std::string copy = join_path(run, "tokenizer.json");
    if (posix_fs().info(copy)) return copy;
  }
  const std::string& named = given.empty() ? config.data.tokenizer : given;
  return named == "bytes" ? "" : named;
}

bool bytes_are_tokens(const Checkpoint& checkpoint, const std::string& given) {
  const Config run = config_of(checkpoint.manifest());
  if ((given.empty() ? run.data.tokenizer : given) == "bytes") return true;
  return run.model.vocab <= 256 || (run.model.vocab <= 512 && !names_tokens(run.data));
}

Tokenizer tokenizer_for(const Checkpoint& checkpoint, const Config& config,
                        const std::string& given) {
  const std::string path = tokenizer_path(checkpoint, config, given);
  if (path.empty()) {
    if (config.model.vocab >= 256 && bytes_are_tokens(checkpoint, given)) return byte_tokenizer();
    throw Error(
        ExitCode::bad_config,
        fmt::format("the run names no tokenizer for its vocabulary of {}", config.model.vocab),
        "give --tokenizer tokenizer.json, or --tokenizer bytes where it was trained on bytes");
  }
  Tokenizer tokenizer = load_tokenizer(path);
  require_vocab(tokenizer, config.model.vocab, path);
  return tokenizer;
}

}  // namespace stretto::cli
