#include "train/resume.h"

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "base/units.h"
#include "checkpoint/store.h"
#include "comm/long_work.h"
#include "config/schema.h"
#include "train/checkpoint.h"
#include "train/saver.h"

namespace stretto {
namespace {

bool binding(const std::string& key, bool weights_only) {
  if (key.starts_with("model.")) return key != "model.name";
  if (weights_only) return false;
  return key == "seq_len" || key == "precision" || key == "seed" || key.starts_with("data.");
}

// Whether the key only names data. Then it may differ where both runs train on the same tokens.
bool names_data(const std::string& key) {
  return key == "data.path" || key == "data.eval_path" || key == "data.tokenizer";
}

std::string listed(const std::vector<Difference>& differences) {
  std::string text;
  for (const Difference& d : differences) {
    text += fmt::format("{}{}={} (checkpoint: {})", text.empty() ? "" : ", ", d.key, d.given,
                        d.saved.empty() ? "not set" : d.saved);
  }
  return text;
}

// Advice where the checkpoint belongs to another run. `weights`: this run could start from its
// weights.
std::string another_run(bool weights) {
  return std::string("set output= to another directory for a new run") +
         (weights ? " (`stretto export`, then `import`, makes one that begins with these weights)"
                  : "");
}

// The steps that rank 0 finds in the directory, on every rank.
std::vector<int64_t> agreed_steps(Comm& world, const CheckpointStore& store) {
  std::vector<int64_t> steps;
  if (world.rank() == 0) steps = store.steps();
  auto count = static_cast<int32_t>(steps.size());
  world.broadcast(Tensor(&count, DType::i32, {1}), 0);
  std::vector<double> numbers(steps.begin(), steps.end());  // exact up to 2^53
  numbers.resize(static_cast<size_t>(count));
  if (count > 0) world.broadcast(Tensor(numbers.data(), DType::f64, {count}), 0);
  return {numbers.begin(), numbers.end()};
}

// Opens the checkpoint; every rank verifies its share of the files. nullopt if any share is
// damaged.
std::optional<Checkpoint> verified(Comm& world, const CheckpointStore& store, int64_t step,
                                   int64_t& bytes) {
  std::optional<Checkpoint> checkpoint;
  int32_t failed = 0;
  LongWork work(world);  // ranks may have very different shares
  try {
    checkpoint = store.open(step);
    bytes = checkpoint->verify(world.rank(), world.size(), [&] { work.moved(); });
  } catch (const Error& error) {
    if (may_be_whole(error)) throw;
    failed = 1;
    spdlog::warn("damaged checkpoint: {}", error.what());
  }
  work.wait();
  world.all_reduce(Tensor(&failed, DType::i32, {1}), ReduceOp::max);
  if (failed != 0) return std::nullopt;
  return checkpoint;
}

// Such checkpoints are written by `stretto import`.
bool holds_weights_only(const Checkpoint& checkpoint) {
  return state_of(checkpoint.manifest()).loss_scale.scale == 0;
}

void require_same_run(const Trainer& trainer, const Checkpoint& checkpoint, bool speaks) {
  const bool weights_only = holds_weights_only(checkpoint);
  const DataMark then = data_of(checkpoint.manifest()), now = trainer.data().mark;
  const ConfigDifferences differences = compare_configs(
      config_of(checkpoint.manifest()), trainer.config(), weights_only, then == now);
  if (!differences.conflicts.empty()) {
    const bool same_model =
        std::none_of(differences.conflicts.begin(), differences.conflicts.end(),
                     [](const Difference& d) { return d.key.starts_with("model."); });
    throw Error(ExitCode::bad_config,
                fmt::format("{} was made with other settings: {}", checkpoint.path(),
                            listed(differences.conflicts)),
                another_run(same_model) + ", or repeat the settings of the checkpoint");
  }
  if (!weights_only && then.tokens > 0 && then != now) {
    throw Error(ExitCode::bad_config,
                fmt::format("{} was made with other data: {} tokens, {} now{}", checkpoint.path(),
                            then.tokens, now.tokens, then.tokens == now.tokens ? ", others" : ""),
                "bring back the data of data.path, or " + another_run(true));
  }
  if (speaks && !differences.changed.empty()) {
    spdlog::info("from this command: {}", listed(differences.changed));
  }
}

// Which tokens are trained on, and so the order of samples, stays what it was.
void keep_trained_part(Trainer& trainer, const Checkpoint& checkpoint) {
  const DataMark& now = trainer.data().mark;
  int64_t trained = data_of(checkpoint.manifest()).trained;
  if (trained == 0) {  // an older version wrote it
    Config saved = config_of(checkpoint.manifest());
    saved.seq_len = trainer.config().seq_len;
    trained = tokens_before_tail(saved, *trainer.data().source);
  }
  if (trained < 0 || trained > now.tokens) {
    throw Error(
        ExitCode::bad_data,
        fmt::format("{}: trained on {} of {} tokens", checkpoint.path(), trained, now.tokens),
        "use another checkpoint");
  }
  trainer.train_on(trained);
}

}  // namespace

ConfigDifferences compare_configs(const Config& saved, const Config& given, bool weights_only,
                                  bool same_tokens) {
  ConfigDifferences differences;
  for (const Key& key : config_keys()) {
    const std::string before = render_value(key, key.get(saved));
    const std::string now = render_value(key, key.get(given));
    if (before == now || key.name == "output") continue;
    const bool conflict = binding(key.name, weights_only) && !(same_tokens && names_data(key.name));
    auto& list = conflict ? differences.conflicts : differences.changed;
    list.push_back({key.name, before, now});
  }
  return differences;
}

int64_t resume(Trainer& trainer, Fs& fs, bool speaks) {
  Comm& world = trainer.world();
  const CheckpointStore store(fs, checkpoint_root(trainer.config()));
  const std::vector<int64_t> steps = agreed_steps(world, store);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    int64_t bytes = 0;
    const auto checkpoint = verified(world, store, *step, bytes);
    if (!checkpoint) continue;
    require_same_run(trainer, *checkpoint, speaks);
    if (!holds_weights_only(*checkpoint)) keep_trained_part(trainer, *checkpoint);
    LongWork reading(world);
    restore(trainer, *checkpoint, [&] { reading.moved(); });
    reading.wait();
    if (speaks) {
      const TrainerState& state = trainer.state();
      spdlog::info("from {} ({} verified): {}, step {}, {} consumed, loss scale {:g}",
                   checkpoint->path(),
                   format_bytes(static_cast<double>(checkpoint->manifest().bytes())),
                   holds_weights_only(*checkpoint) ? "weights alone" : "weights, optimizer state",
                   state.step, counted(state.consumed_samples, "sample"), trainer.scaler().scale());
    }
    return *step;
  }
  if (steps.empty()) return -1;
  throw Error(ExitCode::bad_data, fmt::format("every checkpoint in {} is damaged", store.root()),
              "restore one from a copy, or set output= to another directory to begin anew");
}

}  // namespace stretto
