#include "train/evaluate.h"

#include <algorithm>
#include <vector>

#include "base/ceil_div.h"
#include "config/rules.h"
#include "model/gpt.h"
#include "parallel/device_comm.h"
#include "train/checkpoint.h"
#include "train/rank_backend.h"
#include "train/rank_plan.h"

namespace stretto {
void read_filled_batch(const Sampler& sampler, int64_t first, int64_t samples,
                       std::span<int32_t> tokens, std::span<int32_t> targets) {
  const auto count = static_cast<size_t>(samples * sampler.seq_len());
  sampler.read_batch(first, samples, tokens.first(count), targets.first(count));
  std::ranges::fill(tokens.subspan(count), 0);
  std::ranges::fill(targets.subspan(count), -1);
}

Config eval_config(const Checkpoint& checkpoint, Device device) {
  const Config run = config_of(checkpoint.manifest());
  Config config;
  config.model = run.model;
  config.seq_len = run.sequence_length();
  config.precision = run.precision;
  config.device = device;
  config.tf32 = run.tf32 && device == Device::cuda;
  config.repeatable = run.repeatable;
  config.threads = run.threads;
  config.logits_chunk = run.logits_chunk;
  config.data.tokenizer = run.data.tokenizer;
  config.micro_batch = config.global_batch = 1;
  require_valid(config);
  return config;
}

EvalResult evaluate_tokens(const Checkpoint& checkpoint, const TokenSource& source,
                           const EvalSettings& settings) {
  Config config = settings.config;
  SamplerOptions options;
  options.seq_len = config.seq_len;
  options.vocab = config.model.vocab;
  options.shuffle = false;
  const Sampler sampler(source, options);
  int64_t samples = sampler.samples_per_epoch();
  if (settings.max_tokens > 0) {
    samples = std::clamp<int64_t>(settings.max_tokens / config.seq_len, 1, samples);
  }
  const int64_t batches = ceil_div(samples, settings.batch);
  config.micro_batch = config.global_batch = ceil_div(samples, batches);

  const auto self = make_self_comm();
  const auto backend = make_rank_backend(config, *self);
  RankShape shape = rank_shape(config, {});
  shape.train = false;
  const auto comm = make_device_comm(*self, *backend);
  Gpt gpt(*backend, shape, {comm.get(), comm.get(), comm.get(), nullptr});
  load_weights(checkpoint, gpt);

  // All batches have one shape, since a GPU chooses its algorithms anew for each shape.
  const MicroBatch mb{0, 0, config.micro_batch};
  std::vector<int32_t> tokens(static_cast<size_t>(config.micro_batch * config.seq_len));
  std::vector<int32_t> targets(tokens.size());
  double sum = 0;
  for (int64_t done = 0; done < samples; done += config.micro_batch) {
    const int64_t count = std::min(config.micro_batch, samples - done);
    read_filled_batch(sampler, done, count, tokens, targets);
    backend->fill_zero(gpt.loss_sums());
    gpt.set_batch(0, mb, tokens.data(), targets.data());
    gpt.forward(0, mb, false);
    double part = 0;
    backend->copy_to_host(&part, gpt.loss_sums().slice(0, 1));
    sum += part;
  }
  const int64_t predicted = samples * config.seq_len;
  return {sum / static_cast<double>(predicted), predicted};
}

}  // namespace stretto
