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

// No room for more than bytes, or about as many as there are.
bool bytes_are_likely(const Config& run) {
  return run.model.vocab <= 256 || (run.model.vocab <= 512 && !names_tokens(run.data));
}

}  // namespace

std::string tokenizer_name(const Checkpoint& checkpoint, const std::string& given) {
  const Config run = config_of(checkpoint.manifest());
  if (!given.empty()) return given;
  if (run.data.tokenizer == "bytes") return "bytes";
  const std::string directory = run_directory_of(checkpoint);
  const std::string copy = directory.empty() ? "" : join_path(directory, "tokenizer.json");
  if (!copy.empty() && posix_fs().info(copy)) return copy;
  if (!run.data.tokenizer.empty()) return run.data.tokenizer;
  return bytes_are_likely(run) ? "bytes" : "";
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
