#include "cli/checkpoint_text.h"

#include "base/error.h"
#include "base/fs.h"
#include "checkpoint/store.h"
#include "train/checkpoint.h"
#include "train/run_tokenizer.h"

namespace stretto::cli {
namespace {

// Whether the vocabulary has no room for more than bytes, or not much more and the model was
// trained on a text.
bool bytes_are_likely(const Manifest& manifest, int64_t vocab) {
  return vocab <= 256 || (vocab <= 512 && data_of(manifest).format == "bytes");
}

}  // namespace

std::string tokenizer_name(const Checkpoint& checkpoint, const std::string& given) {
  if (!given.empty()) return given;
  const Config run = config_of(checkpoint.manifest());
  if (run.data.tokenizer == "bytes") return "bytes";
  const std::string directory = run_directory_of(checkpoint);
  const std::string copy = directory.empty() ? "" : tokenizer_copy(directory);
  if (!copy.empty() && posix_fs().info(copy)) return copy;
  if (!run.data.tokenizer.empty()) return run.data.tokenizer;
  return bytes_are_likely(checkpoint.manifest(), run.model.vocab) ? "bytes" : "";
}

Tokenizer tokenizer_for(const Checkpoint& checkpoint, const std::string& given) {
  const std::string name = tokenizer_name(checkpoint, given);
  const int64_t vocab = config_of(checkpoint.manifest()).model.vocab;
  if (name.empty() || (name == "bytes" && vocab < 256)) {
    throw Error(
        ExitCode::bad_config,
        fmt::format("the run names no tokenizer for its vocabulary of {}", vocab),
        "give --tokenizer tokenizer.json, or --tokenizer bytes where it was trained on bytes");
  }
  if (name == "bytes") return byte_tokenizer();
  Tokenizer tokenizer = load_tokenizer(name);
  require_vocab(tokenizer, vocab, name);
  return tokenizer;
}

}  // namespace stretto::cli
