#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/trace.h"
#include "data/token_check.h"
#include "data/tokenizer.h"
#include "parallel/device_comm.h"
#include "parallel/nccl_comm.h"
#include "train/lr_schedule.h"
#include "train/rank_plan.h"
#include "train/run_tokenizer.h"

namespace stretto {
namespace {

bool is_text(const TokenSource& source) { return source.format() == "bytes"; }

bool means_bytes(const std::string& tokenizer) {
  if (tokenizer == "bytes") return true;
  try {
    return same_tokenizer(load_tokenizer(tokenizer), byte_tokenizer());
  } catch (const Error&) {
    return false;  // unreadable: other code reports that
  }
}

// The model's tokenizer: the one that the configuration names, else the one that an import or an
// earlier run has left in the run's directory. Empty if none is known.
std::string tokenizer_name(const Config& config) {
  if (!config.data.tokenizer.empty()) return config.data.tokenizer;
  return kept_tokenizer(posix_fs(), config.output) ? tokenizer_copy(config.output) : "";
}

// Refuses a text where the model has a tokenizer: it would be read byte by byte, and its samples
// would be decoded as tokens.
void require_tokens(const Config& config, const TokenSource& source) {
  if (!is_text(source)) return;
  const std::string tokenizer = tokenizer_name(config);
  if (tokenizer.empty() || means_bytes(tokenizer)) return;
  throw Error(ExitCode::bad_config,
              fmt::format("data.path={} is text, but {}{}", source.name(),
                          config.data.tokenizer.empty() ? "the model has a tokenizer: "
                                                        : "data.tokenizer is given: ",
                          tokenizer),
              fmt::format("stretto data prepare {} --tokenizer {} -o NAME, then "
                          "data.path=NAME.bin; or set data.tokenizer=bytes to train on bytes",
                          source.name(), tokenizer));
}

// Refuses to train on bytes and evaluate on a tokenizer's ids, or the other way round.
void require_alike(const Config& config, const TokenSource& source, const TokenSource& eval) {
  if (is_text(source) == is_text(eval)) return;
  const std::string tokenizer = tokenizer_name(config);
  const bool small = config.model.vocab <= 256;  // too small for anything but bytes
  if (small && (tokenizer.empty() || means_bytes(tokenizer))) return;
  const auto kind = [](const TokenSource& s) { return is_text(s) ? "is text" : "holds tokens"; };
  const bool path = is_text(source);
  throw Error(
      ExitCode::bad_config,
      fmt::format("data.path={} {}, data.eval_path={} {}", source.name(), kind(source), eval.name(),
                  kind(eval)),
      fmt::format("convert the text to tokens with the other tokenizer: stretto data "
                  "prepare {} --tokenizer {} -o NAME, then {}=NAME.bin",
                  (path ? source : eval).name(), tokenizer.empty() ? "tokenizer.json" : tokenizer,
                  path ? "data.path" : "data.eval_path"));
}

}  // namespace

LetGoOnError::~LetGoOnError() {
  if (std::uncaught_exceptions() <= exceptions_) return;
  Comm* const all[] = {comms_.dp.get(), comms_.tp.get(), comms_.pp.get(), comms_.ends.get(),
                       comms_.replica.get()};
  let_go_of_nccl(all);
}

Trainer::Trainer(const Config& config, Comm& world, const TunableOptions& tunables)
    : config_(config),
      world_(world),
      mesh_(config.parallel.dp, config.parallel.tp, config.parallel.pp, config.parallel.order,
            config.parallel.zero_group),
      at_(mesh_.coordinates(world.rank())),
      comms_(make_mesh_comms(mesh_, world)),
      backend_(make_rank_backend(config, world, tunables)),
      clock_(config, world),
      scaler_(config.train.loss_scale, config.precision) {
  if (mesh_.pp() > 1) world.monitor().set_stage(at_.pp);
  config_.seq_len = config.sequence_length();
  gpt_ = std::make_unique<Gpt>(*backend_, rank_shape(config_, at_), tensor_comms());
  pipeline_ = std::make_unique<Pipeline>(*gpt_, effective_schedule(config.parallel),
                                         static_cast<int>(config.parallel.interleave));
  const TrainConfig& t = config.train;
  optimizer_ = std::make_unique<Optimizer>(
      *backend_, *gpt_,
      OptimizerSettings{static_cast<float>(t.beta1), static_cast<float>(t.beta2),
                        static_cast<float>(t.eps), static_cast<float>(t.weight_decay),
                        static_cast<float>(t.clip), config.seed});
  const auto largest = static_cast<size_t>(config_.micro_batch * config_.seq_len);
  tokens_.resize(largest);
  targets_.resize(largest);
  losses_.resize(
      static_cast<size_t>(rounds(config_.global_batch, config_.micro_batch, config_.parallel.dp) *
                          config_.parallel.dp));
  my_losses_ = backend_->allocate_host(losses_.size() * sizeof(double), "losses");
  open_data();
  for (const auto* source : {&source_, &eval_source_}) {
    if (*source == nullptr || config_.data.path.empty()) continue;
    look_over(**source, config_.model.vocab, world.rank(), world.size());
  }
  data_mark_ = mark_of(*source_);
  if (!backend_->host_memory()) telemetry_ = open_gpu_telemetry(gpu_of(world));
  if (telemetry_) telemetry_->start();
  peak_ = promised_peak(config_, world);
}

// The communicators that the model uses: those of the mesh, or their counterparts for device
// memory.
RankComms Trainer::tensor_comms() {
  const bool tied_ends = mesh_.pp() > 1 && config_.model.tied_embedding;
  Comm* ends = tied_ends ? comms_.embedding.get() : nullptr;
  const bool hybrid = mesh_.shard_group() < mesh_.dp();
  Comm* dp = hybrid ? comms_.dp_shard.get() : comms_.dp.get();
  Comm* replica = hybrid ? comms_.dp_replica.get() : nullptr;
  counted_ = {comms_.dp.get(), comms_.dp_shard.get(), comms_.dp_replica.get(), comms_.tp.get(),
              comms_.pp.get()};
  if (comms_.embedding) counted_.push_back(comms_.embedding.get());
  if (backend_->host_memory()) return {dp, comms_.tp.get(), comms_.pp.get(), ends, replica};
  const GpuTransport asked = config_.parallel.gpu_transport;
  const bool required = asked == GpuTransport::nccl;
  const bool nccl =
      asked != GpuTransport::host &&
      wants_nccl(world_, *backend_, required ? NcclUse::required : NcclUse::automatic);
  const auto face = [&](std::unique_ptr<Comm>& own, Comm* host, bool ring) -> Comm* {
    if (host == nullptr) return nullptr;
    // A rank that is alone needs no NCCL, unless NCCL was asked for by name.
    const bool staged = !nccl || (host->size() == 1 && !required);
    own = staged ? make_device_comm(*host, *backend_) : make_nccl_comm(*host, *backend_, ring);
    if (!staged) counted_.push_back(own.get());
    return own.get();
  };
  return {face(device_comms_.dp, dp, false), face(device_comms_.tp, comms_.tp.get(), false),
          face(device_comms_.pp, comms_.pp.get(), true), face(device_comms_.ends, ends, false),
          face(device_comms_.replica, replica, false)};
}

void Trainer::open_data() {
  SamplerOptions options;
  options.seq_len = config_.seq_len;
  options.vocab = config_.model.vocab;
  options.seed = config_.seed;
  if (config_.data.path.empty()) {
    source_ = synthetic_tokens(config_.seed, config_.model.vocab);
    sampler_ = std::make_unique<Sampler>(*source_, options);
    return;
  }
  source_ = open_tokens(config_.data.path, config_.data.format);
  require_tokens(config_, *source_);
  if (!config_.data.eval_path.empty()) {
    eval_source_ = open_tokens(config_.data.eval_path, config_.data.format);
    require_alike(config_, *source_, *eval_source_);
    sampler_ = std::make_unique<Sampler>(*source_, options);
    options.shuffle = false;
    eval_sampler_ = std::make_unique<Sampler>(*eval_source_, options);
    return;
  }
  const auto [train, held_out] = split_tail(*source_, config_.seq_len, config_.data.eval_fraction);
  options.range = train;
  sampler_ = std::make_unique<Sampler>(*source_, options);
  if (held_out.end > held_out.begin) {
    options.range = held_out;
    options.shuffle = false;
    eval_sampler_ = std::make_unique<Sampler>(*source_, options);
  }
}

void Trainer::initialise() { optimizer_->initialise(config_.seed); }

const std::vector<Share>& Trainer::deal(const Sampler& sampler, int64_t first_sample,
                                        int64_t samples) {
  dealer_ = &sampler;
  first_sample_ = first_sample;
  if (samples != dealt_samples_) {
    shares_ = batch_shares(samples, config_.micro_batch, mesh_.dp(), at_.dp);
    dealt_samples_ = samples;
  }
  return shares_;
}

void Trainer::load_batch(size_t chunk, const MicroBatch& mb) {
  world_.monitor().beat();  // a replayed micro-batch gives no other sign of life
  if (mb.batch == 0) return;
  const TraceSpan span(TraceLane::loader, "load", mb.index);
  const double start = clock_seconds();
  read_samples(*dealer_, first_sample_ + shares_[static_cast<size_t>(mb.index)].first, mb.batch);
  gpt_->set_batch(chunk, mb, tokens_.data(), targets_.data());
  data_seconds_ += clock_seconds() - start;
}

// Does nothing if these samples were the last ones read.
void Trainer::read_samples(const Sampler& sampler, int64_t first, int64_t samples) {
  if (read_ == Read{&sampler, first, samples}) return;
  const auto count = static_cast<size_t>(samples * config_.seq_len);
  read_ = {};
  sampler.read_batch(first, samples, std::span(tokens_).first(count),
                     std::span(targets_).first(count));
  read_ = {&sampler, first, samples};
}

// Reads the first micro-batch of the next step while the device still works on this one.
void Trainer::read_ahead(int64_t first_sample) {
  const int64_t samples = ramped_batch(config_, first_sample);
  if (backend_->host_memory() || samples != dealt_samples_ || shares_.empty()) return;
  if (shares_[0].count == 0 || state_.step + 1 >= config_.train.steps) return;
  read_samples(*sampler_, first_sample + shares_[0].first, shares_[0].count);
}

StepRecord Trainer::step() {
  const TraceSpan span(TraceLane::step, "step", state_.step + 1);
  const double start = clock_seconds();
  data_seconds_ = 0;
  backend_->profile().reset();
  for (Comm* comm : counted_) comm->reset_counters();

  StepRecord record;
  record.global_batch = ramped_batch(config_, state_.consumed_samples);
  record.tokens = record.global_batch * config_.seq_len;
  record.learning_rate = learning_rate(config_.train, state_.updates + 1);
  record.loss_scale = scaler_.scale();

  const auto& shares = deal(*sampler_, state_.consumed_samples, record.global_batch);
  const double scale = scaler_.scale() / static_cast<double>(record.tokens);
  gpt_->begin_step(static_cast<int64_t>(shares.size()), static_cast<float>(scale));
  pipeline_->train(shares, [this](size_t chunk, const MicroBatch& mb) { load_batch(chunk, mb); });
  send_losses(static_cast<int64_t>(shares.size()));
  const StepResult result = update(record);
  record.loss = global_loss(static_cast<int64_t>(shares.size()), record.tokens);

  scaler_.update(result.skipped);
  state_.step += 1;
  state_.updates += result.skipped ? 0 : 1;
  state_.consumed_samples += record.global_batch;
  state_.skipped_total += result.skipped ? 1 : 0;
  state_.skipped_in_a_row = result.skipped ? state_.skipped_in_a_row + 1 : 0;
  state_.nan_total += std::isfinite(record.loss) ? 0 : 1;
  state_.loss_scale = scaler_.state();

  record.step = state_.step;
  record.steps = config_.train.steps;
  record.updates = state_.updates;
  record.consumed_samples = state_.consumed_samples;
  record.consumed_tokens = state_.consumed_samples * config_.seq_len;
  record.grad_norm = result.grad_norm;
  record.zeros = result.zeros;
  record.skipped = result.skipped;
  record.skipped_total = state_.skipped_total;
  record.nan_total = state_.nan_total;
  take_times(record, start);
  clock_.after(record);
  return record;
}

StepResult Trainer::update(const StepRecord& record) {
  {
    const TraceSpan span(TraceLane::compute, "gradient sums");
    gpt_->gradients().finish_step(gpt_->comms().ends);
  }
  const TraceSpan span(TraceLane::compute, "optimizer");
  optimizer_->start_step(record.learning_rate, scaler_.scale(), state_.updates + 1);
  read_ahead(state_.consumed_samples + record.global_batch);
  return optimizer_->result(scaler_.scale());
}

void Trainer::send_losses(int64_t count) {
  if (at_.pp != mesh_.pp() - 1) return;
  backend_->start_copy_to_host(Lane::compute, my_losses_.data(), gpt_->loss_sums().slice(0, count));
}

// Adds up the losses in the order of the micro-batches in the global batch, so that the sum does
// not depend on dp.
double Trainer::global_loss(int64_t count, int64_t tokens) {
  const auto dp = static_cast<int64_t>(mesh_.dp());
  const bool last = at_.pp == mesh_.pp() - 1;
  double loss = 0;
  if (last) {
    const Tensor all(losses_.data(), DType::f64, {dp, count});
    comms_.dp->all_gather(all, ConstTensor(my_losses_.data(), DType::f64, {count}));
    for (int64_t round = 0; round < count; ++round) {
      for (int64_t r = 0; r < dp; ++r) loss += losses_[static_cast<size_t>(r * count + round)];
    }
    loss /= static_cast<double>(tokens);
  }
  comms_.pp->broadcast(Tensor(&loss, DType::f64, {1}), mesh_.pp() - 1);
  return loss;
}

void Trainer::time_operators(bool on) {
  by_operator_ = on;
  backend_->time_operators(on || config_.trace > 0);
}

void Trainer::take_times(StepRecord& record, double start) {
  record.by_operator = by_operator_;
  if (by_operator_ || config_.trace > 0 || backend_->host_memory()) {
    backend_->synchronize();  // device times are complete after this
    for (int op = 0; op < kOps; ++op) {
      record.operators[static_cast<size_t>(op)] = backend_->profile().of(static_cast<Op>(op));
    }
  }
  StepTimes& t = record.times;
  for (int c = 0; c < kOpClasses; ++c) {
    t.ops[static_cast<size_t>(c)] = backend_->profile().of(static_cast<OpClass>(c)).seconds;
  }
  t.comm_dp = t.comm_tp = t.comm_pp = 0;
  for (const Comm* comm : counted_) {
    // "embedding" joins first and last stage: its time belongs to the pipeline.
    const bool tp = comm->name() == "tp";
    const bool pp = comm->name() == "pp" || comm->name() == "embedding";
    if (comm->size() == 1) continue;  // there is nobody to wait for
    (tp ? t.comm_tp : pp ? t.comm_pp : t.comm_dp) += comm->counters().seconds;
    (tp ? record.comm_tp : pp ? record.comm_pp : record.comm_dp) += comm->counters();
  }
  t.data = data_seconds_;
  t.total = clock_seconds() - start;
  // Memory grows while shapes are new. Not every step, because the question takes a millisecond.
  if (state_.step <= 4 || state_.step % 64 == 0) device_bytes_ = backend_->device_bytes();
  record.device_bytes = device_bytes_;
  record.peak = peak_;
  if (telemetry_) record.gpu = telemetry_->take();
}

double Trainer::evaluate(int64_t batches) {
  STRETTO_CHECK(eval_sampler_ != nullptr);
  const int64_t per_batch = config_.global_batch;
  double sum = 0;
  int64_t done = 0;
  for (int64_t b = 0; b < batches && done < eval_sampler_->samples_per_epoch(); ++b) {
    const int64_t samples = std::min(per_batch, eval_sampler_->samples_per_epoch() - done);
    const auto& shares = deal(*eval_sampler_, done, samples);
    if (at_.pp == mesh_.pp() - 1) backend_->fill_zero(gpt_->loss_sums());
    pipeline_->evaluate(shares,
                        [this](size_t chunk, const MicroBatch& mb) { load_batch(chunk, mb); });
    const int64_t tokens = samples * config_.seq_len;
    send_losses(static_cast<int64_t>(shares.size()));
    backend_->wait_on_host(backend_->record(Lane::compute));
    sum += global_loss(static_cast<int64_t>(shares.size()), tokens) * static_cast<double>(tokens);
    done += samples;
  }
  return sum / static_cast<double>(done * config_.seq_len);
}

}  // namespace stretto
