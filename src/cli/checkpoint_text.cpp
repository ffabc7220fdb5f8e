#include "cli/checkpoint_text.h"

#include "base/error.h"
#include "base/fs.h"
#include "checkpoint/store.h"

namespace stretto::cli {

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

bool bytes_are_tokens(const Config& config, const std::string& given) {
  return config.model.vocab <= 512 || given == "bytes";
}

Tokenizer tokenizer_for(const Checkpoint& checkpoint, const Config& config,
                        const std::string& given) {
  const std::string path = tokenizer_path(checkpoint, config, given);
  if (path.empty()) {
    if (config.model.vocab >= 256 && bytes_are_tokens(config, given)) return byte_tokenizer();
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
