// stretto export and stretto import: models for and from other tools.
#include "hf/exchange.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/units.h"
#include "checkpoint/store.h"
#include "cli/checkpoint_text.h"
#include "cli/verbs.h"
#include "train/checkpoint.h"
#include "train/run_lock.h"
#include "train/signals.h"

namespace stretto::cli {
namespace {

constexpr const char* kExportHelp =
    "Writes a model that Hugging Face transformers load\n\n"
    "Examples:\n"
    "  stretto export runs/a -o my-model                    the newest good checkpoint\n"
    "  stretto export runs/a/checkpoints/step-5 -o my-model --tokenizer tokenizer.json\n"
    "  stretto export runs/a -o my-model --dtype bf16       half the bytes\n"
    "  then: AutoModelForCausalLM.from_pretrained(\"my-model\")\n";

constexpr const char* kImportHelp =
    "Reads a Hugging Face GPT-2 or MPT model as step 0 of a run\n\n"
    "Examples:\n"
    "  stretto import gpt2 -o runs/gpt2              config.json and *.safetensors in gpt2/\n"
    "  stretto generate runs/gpt2 --prompt \"Hello\"\n"
    "  stretto train runs/gpt2/model.yaml output=runs/gpt2 data.path=my.bin   trains it further\n";

struct Options {
  std::string source, target, tokenizer, format = "hf", dtype = "fp32";
  double shard_gb = 5;
  bool json = false;
};

void report(const Options& o, const ExchangeResult& result) {
  if (o.json) {
    print_json(nlohmann::json{{"path", o.target},
                              {"family", result.family},
                              {"tensors", result.tensors},
                              {"files", result.files},
                              {"bytes", result.bytes},
                              {"tokenizer", result.tokenizer}},
               -1);
    return;
  }
  fmt::print("{}", for_stdout(fmt::format("{}: {} model, {} tensors, {} in {}{}\n", o.target,
                                          result.family, result.tensors,
                                          format_bytes(static_cast<double>(result.bytes)),
                                          counted(static_cast<int64_t>(result.files), "file"),
                                          result.tokenizer ? ", with its tokenizer" : "")));
}

DType dtype_from(const std::string& name) {
  if (name == "fp32") return DType::f32;
  if (name == "bf16") return DType::bf16;
  if (name == "fp16") return DType::f16;
  throw Error(ExitCode::usage, fmt::format("--dtype {}", printable(name)),
              "use fp32, bf16 or fp16");
}

void run_export(const Options& o) {
  if (o.format != "hf") {
    throw Error(ExitCode::usage, fmt::format("--format {}", o.format), "the only format is hf");
  }
  const DType dtype = dtype_from(o.dtype);
  const Checkpoint checkpoint = checkpoint_at(posix_fs(), o.source);
  ExportOptions options;
  options.dtype = dtype;
  options.tokenizer = tokenizer_name(checkpoint, o.tokenizer);
  // Without all 256 bytes in the vocabulary there is no tokenizer that others could use.
  const bool too_small = config_of(checkpoint.manifest()).model.vocab < 256;
  if (o.tokenizer.empty() && options.tokenizer == "bytes" && too_small) options.tokenizer.clear();
  options.shard_bytes = static_cast<int64_t>(o.shard_gb * 1e9);
  install_stop_signals();  // when asked to stop, removes what was written so far
  options.stop = [] { return stop_signal() != 0; };
  report(o, export_hf(posix_fs(), checkpoint, o.target, options));
}

void run_import(const Options& o) {
  const RunLock lock(o.target);
  install_stop_signals();  // when asked to stop, removes what was written so far
  report(o, import_hf(posix_fs(), o.source, o.target, [] { return stop_signal() != 0; }));
}

}  // namespace

void add_exchange(Command& app) {
  Command* verb = app.add_subcommand("export", kExportHelp);
  auto o = std::make_shared<Options>();
  verb->add_option("CHECKPOINT", o->source, "a run, or one step-N of it")->required()->directory();
  verb->add_option("-o,--output", o->target, "a new directory")->required()->directory();
  verb->add_option("--format", o->format, "hf")->offers({"hf"})->capture_default_str();
  verb->add_option("--dtype", o->dtype, "fp32, bf16 or fp16: type of every tensor")
      ->offers({"fp32", "bf16", "fp16"})
      ->capture_default_str();
  verb->add_option("--tokenizer", o->tokenizer, "instead of the one the run names")->file();
  verb->add_option("--shard-gb", o->shard_gb, "files above this size are cut")
      ->capture_default_str()
      ->between(1e-5, 1e6);
  verb->add_flag("--json", o->json, "machine-readable");
  verb->callback([o] { run_export(*o); });

  verb = app.add_subcommand("import", kImportHelp);
  o = std::make_shared<Options>();
  verb->add_option("DIR", o->source, "with config.json and model.safetensors")
      ->required()
      ->directory();
  verb->add_option("-o,--output", o->target, "a new run directory")->required()->directory();
  verb->add_flag("--json", o->json, "machine-readable");
  verb->callback([o] { run_import(*o); });
}

}  // namespace stretto::cli
