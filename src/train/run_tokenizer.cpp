#include "train/run_tokenizer.h"

#include "base/error.h"
#include "base/log.h"
#include "data/tokenizer.h"

namespace stretto {
namespace {

void write_copy(Fs& fs, const std::string& named, const std::string& copy, bool speaks) {
  try {
    const std::string text = tokenizer_to_json(load_tokenizer(named, fs));
    make_dirs(fs, parent_dir(copy));
    write_file_atomic(fs, copy, text);
  } catch (const Error& error) {
    if (!speaks) return;
    spdlog::warn("data.tokenizer={}: training goes on, `generate` will want it ({})", named,
                 error.what());
  }
}

bool differs(Fs& fs, const std::string& named, const std::string& copy) {
  try {
    return !same_tokenizer(load_tokenizer(named, fs), load_tokenizer(copy, fs));
  } catch (const Error&) {
    return false;  // nothing to compare with; whoever needs the copy will say what is wrong with it
  }
}

}  // namespace

void keep_tokenizer(Fs& fs, const Config& config, bool fresh, bool speaks) {
  const std::string& named = config.data.tokenizer;
  if (config.output.empty() || named.empty() || named == "bytes") return;
  const std::string copy = join_path(config.output, "tokenizer.json");
  if (!fs.info(copy)) {
    write_copy(fs, named, copy, speaks);
  } else if (differs(fs, named, copy)) {
    if (fresh) {
      throw Error(ExitCode::cannot_create,
                  fmt::format("{} is another tokenizer than data.tokenizer={}", copy, named),
                  "set output= to another directory, or remove the file there");
    }
    if (speaks) {
      spdlog::warn(
          "data.tokenizer={} is not the tokenizer of this run any more; `generate` uses {}", named,
          copy);
    }
  }
}

}  // namespace stretto
