#include "train/run_tokenizer.h"

#include "base/error.h"
#include "base/log.h"

namespace stretto {
namespace {

// For a run that has no copy yet.
void begin_copy(Fs& fs, const std::string& named, const std::string& copy, bool fresh,
                bool speaks) {
  try {
    const std::string text = tokenizer_to_json(load_tokenizer(named, fs));
    make_dirs(fs, parent_dir(copy));
    write_file_atomic(fs, copy, text);
  } catch (const Error& error) {
    if (fresh && error.code() == ExitCode::bad_data) {
      throw Error(error.code(),
                  fmt::format("data.tokenizer={} cannot be used: {}", named, error.what()),
                  error.hint() + "; or leave data.tokenizer out: training needs only the ids");
    }
    if (!speaks) return;
    spdlog::warn("data.tokenizer={}: training goes on, but `generate` will need it ({})", named,
                 error.what());
  }
}

std::optional<Tokenizer> copy_of(Fs& fs, const std::string& output, bool fresh, bool speaks) {
  try {
    return kept_tokenizer(fs, output);
  } catch (const Error& error) {
    if (fresh) throw;
    if (speaks) {
      spdlog::warn(
          "{}: training goes on, but `generate` will not work; remove the file, and a run with "
          "data.tokenizer= makes a new copy",
          error.what());
    }
    return std::nullopt;
  }
}

bool differs(Fs& fs, const std::string& named, const Tokenizer& kept) {
  try {
    return !same_tokenizer(load_tokenizer(named, fs), kept);
  } catch (const Error&) {
    return false;  // nothing to compare with: the copy is used
  }
}

}  // namespace

std::string tokenizer_copy(const std::string& output) {
  return join_path(output, "tokenizer.json");
}

std::optional<Tokenizer> kept_tokenizer(Fs& fs, const std::string& output) {
  if (output.empty() || !fs.info(tokenizer_copy(output))) return std::nullopt;
  try {
    return load_tokenizer(tokenizer_copy(output), fs);
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("the tokenizer in output= cannot be used: {}", error.what()),
                "remove the file, or set output= to another directory");
  }
}

void keep_tokenizer(Fs& fs, const Config& config, bool fresh, bool speaks) {
  if (config.output.empty()) return;
  const std::string& named = config.data.tokenizer;
  const std::string copy = tokenizer_copy(config.output);
  const bool given = !named.empty() && named != "bytes";
  if (!fs.info(copy)) {
    if (given) begin_copy(fs, named, copy, fresh, speaks);
    return;
  }
  const std::optional<Tokenizer> kept = copy_of(fs, config.output, fresh, speaks);
  if (!given || !kept || !differs(fs, named, *kept)) return;
  if (fresh) {
    throw Error(ExitCode::cannot_create,
                fmt::format("{} is not the tokenizer of data.tokenizer={}", copy, named),
                "set output= to another directory, or remove the file there");
  }
  if (speaks) {
    spdlog::warn("data.tokenizer={} is not the tokenizer of this run any more; `generate` uses {}",
                 named, copy);
  }
}

}  // namespace stretto
