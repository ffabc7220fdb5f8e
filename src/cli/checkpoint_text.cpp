#include "cli/checkpoint_text.h"

#include "base/error.h"
#include "base/fs.h"
#include "checkpoint/store.h"

namespace stretto::cli {

std::string tokenizer_path(const Checkpoint& checkpoint, const Config& config,
                           const std::string& given) {
  const std::string& named = given.empty() ? config.data.tokenizer : given;
  if (named.empty() || named == "bytes") return "";
  const std::string run = run_directory_of(checkpoint);
  if (!given.empty() || run.empty()) return named;
  const std::string copy = join_path(run, "tokenizer.json");
  return posix_fs().info(copy) ? copy : named;
}

Tokenizer tokenizer_for(const Checkpoint& checkpoint, const Config& config,
                        const std::string& given) {
  const std::string path = tokenizer_path(checkpoint, config, given);
  if (path.empty()) {
    if (config.model.vocab >= 256 && (config.model.vocab <= 512 || given == "bytes")) {
      return byte_tokenizer();
    }
    throw Error(
        ExitCode::bad_config,
        fmt::format("the run names no tokenizer for its vocabulary of {}", config.model.vocab),
        "give --tokenizer tokenizer.json");
  }
  Tokenizer tokenizer = load_tokenizer(path);
  if (tokenizer.vocab_size() > config.model.vocab) {
    throw Error(ExitCode::bad_config,
                fmt::format("{} has {} tokens, the model {}", path, tokenizer.vocab_size(),
                            config.model.vocab),
                "give the tokenizer that the model was trained with (--tokenizer)");
  }
  return tokenizer;
}

}  // namespace stretto::cli
