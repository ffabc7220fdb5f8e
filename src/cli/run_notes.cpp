#include "cli/run_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "account/flops.h"
#include "account/parameters.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/units.h"
#include "comm/launch.h"
#include "config/rules.h"
#include "config/suggest.h"
#include "data/corpus.h"
#include "train/lr_schedule.h"

namespace stretto::cli {
namespace {

std::string layout_text(const Config& config) {
  if (config.world_size() == 1) return "";
  const ParallelConfig& p = config.parallel;
  std::vector<std::string> axes;
  if (p.dp > 1) axes.push_back(fmt::format("dp {}", p.dp));
  if (p.tp > 1) axes.push_back(fmt::format("tp {}", p.tp));
  if (p.pp > 1) axes.push_back(fmt::format("pp {}", p.pp));
  const std::string zero = p.zero > 0 ? fmt::format(", ZeRO {}", p.zero) : "";
  return fmt::format(", {} ranks ({}{})", config.world_size(), fmt::join(axes, " x "), zero);
}

// What a rule of advice says about its key, which has this value.
std::string note_of(const char* rule, int64_t value, const Config& config) {
  for (const Finding& finding : check_config(config)) {
    if (finding.rule != rule) continue;
    return fmt::format("{}={} {}; {}", finding.key, value, finding.message, finding.fix);
  }
  return "";
}

}  // namespace

std::string start_note(const Config& config, double bytes) {
  return fmt::format("{}: {} parameters in {} on {}{}, {} per rank; {} of {} {} a step",
                     printable(config.model.name), with_commas(parameter_count(config.model)),
                     name_of(config.precision), name_of(config.device), layout_text(config),
                     format_bytes(bytes), counted(config.global_batch, "sequence"), config.seq_len,
                     config.data.path.empty() ? "random tokens (data.path is not set)"
                                              : "tokens of " + printable(config.data.path));
}

std::string warmup_note(const TrainConfig& train) {
  if (train.warmup <= train.steps) return "";
  return fmt::format(
      "train.warmup={} is longer than train.steps={}: the learning rate ends at {:.2e}, on its way "
      "to {:.2e}",
      train.warmup, train.steps, learning_rate(train, train.steps), train.lr);
}

std::string zero_note(const Config& config) {
  return note_of("zero-dp", config.parallel.zero, config);
}

std::string idle_gpu_note(const Config& config) {
  return note_of("gpu-rows", config.micro_batch, config);
}

std::string json_note(const std::string& path, TokenFormat format, const char* as_text) {
  const bool json = named_json_lines(path) || path.ends_with(".json");
  if (!json || format != TokenFormat::detect || !posix_fs().info(path)) return "";
  return fmt::format(
      "{0} is read as plain text, JSON's brackets and quotes included; `stretto data prepare {0}` "
      "extracts its documents; {1} says that plain text is what you want",
      printable(path), as_text);
}

const char* stop_note(bool saves) {
  if (detect_launch().rank != 0) return nullptr;
  // The terminal has put ^C at the end of the current line.
  return saves ? "\nstopping after the work at hand; Ctrl-C again ends without saving\n"
               : "\nstopping after the work at hand; Ctrl-C again ends at once\n";
}

std::string busy_note(const CoreUse& use) {
  if (!use.disturbed()) return "";
  return fmt::format("{}: steps take longer than they would on an idle machine", describe(use));
}

}  // namespace stretto::cli
