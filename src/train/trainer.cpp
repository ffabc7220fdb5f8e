#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "backend/task_slice.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/trace.h"
#include "parallel/device_comm.h"
#include "parallel/nccl_comm.h"
#include "train/gpu_queues.h"
#include "train/lr_schedule.h"
#include "train/rank_plan.h"

namespace stretto {

LetGoOnError::~LetGoOnError() {
  if (std::uncaught_exceptions() <= exceptions_) return;
  Comm* const all[] = {comms_.dp.get(), comms_.tp.get(), comms_.pp.get(), comms_.ends.get(),
                       comms_.replica.get()};
  let_go_of_nccl(all);
}

Trainer::Trainer(const Config& config, Comm& world, const TunableOptions& tunables)
    : config_(config),
      world_(world),
      mesh_(config.parallel),
      at_(mesh_.coordinates(world.rank())),
      comms_(make_mesh_comms(mesh_, world)),
      backend_(make_rank_backend(config, world, tunables)),
      clock_(config, world),
      scaler_(config.train.loss_scale, config.precision) {
  if (mesh_.pp() > 1) world.monitor().set_stage(at_.pp);
  config_.seq_len = config.sequence_length();
  gpt_ = std::make_unique<Gpt>(*backend_, rank_shape(config_, at_), tensor_comms());
  pipeline_ = std::make_unique<Pipeline>(*gpt_, config.parallel.running_schedule(),
                                         static_cast<int>(config.parallel.interleave));
  const TrainConfig& t = config.train;
  optimizer_ = std::make_unique<Optimizer>(
      *backend_, *gpt_,
      OptimizerSettings{static_cast<float>(t.beta1), static_cast<float>(t.beta2),
                        static_cast<float>(t.eps), static_cast<float>(t.weight_decay),
                        static_cast<float>(t.clip), config.seed});
  losses_.resize(
      static_cast<size_t>(rounds(config_.global_batch, config_.micro_batch, config_.parallel.dp) *
                          config_.parallel.dp));
  my_losses_ = backend_->allocate_host(losses_.size() * sizeof(double), "losses");
  data_ = open_run_data(config_, world.rank(), world.size());
  batch_ = std::make_unique<BatchReader>(config_, mesh_.dp(), at_.dp);
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
  if (nccl && world_.size() > 1 && speaks() && few_gpu_queues()) {
    spdlog::warn(
        "CUDA_DEVICE_MAX_CONNECTIONS gives all streams of a GPU so few queues that messages wait "
        "for work they do not need, and a pipeline may stand still: unset it");
  }
  if (nccl) {  // lanes of the axes have what the GPU waits for
    for (Comm* host : counted_) host->show_waits_on(TraceLane::job);
  }
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

void Trainer::initialise() { optimizer_->initialise(config_.seed); }

void Trainer::load_batch(size_t chunk, const MicroBatch& mb) {
  world_.monitor().beat();  // a replayed micro-batch gives no other sign of life
  if (mb.batch == 0) return;
  const TraceSpan span(TraceLane::loader, "load", mb.index);
  const double start = clock_seconds();
  batch_->read(mb.index);
  gpt_->set_batch(chunk, mb, batch_->tokens(), batch_->targets());
  data_seconds_ += clock_seconds() - start;
}

StepRecord Trainer::step() {
  // What was timed before, such as an evaluation, is no part of this step's times and timeline.
  if (config_.trace > 0 && !backend_->host_memory()) {
    const TraceScope nowhere(nullptr);
    backend_->synchronize();
  }
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

  const auto& shares = batch_->deal(*data_.train, state_.consumed_samples, record.global_batch);
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
    const TaskSlice slice(*backend_, {.span = {.name = "gradient sums"}});
    gpt_->gradients().finish_step(gpt_->comms().ends);
  }
  const TaskSlice slice(*backend_, {.span = {.name = "optimizer"}});
  optimizer_->start_step(record.learning_rate, scaler_.scale(), state_.updates + 1);
  // While the device still works on this step.
  if (!backend_->host_memory() && state_.step + 1 < config_.train.steps) {
    const int64_t next = state_.consumed_samples + record.global_batch;
    batch_->read_ahead(*data_.train, next, ramped_batch(config_, next));
  }
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
  const bool timed = by_operator_ || config_.trace > 0 || backend_->host_memory();
  if (timed) {
    backend_->synchronize();  // device times are complete after this
    for (int op = 0; op < kOps; ++op) {
      record.operators[static_cast<size_t>(op)] = backend_->profile().of(static_cast<Op>(op));
    }
  }
  StepTimes& t = record.times;
  for (int c = 0; c < kOpClasses; ++c) {
    t.ops[static_cast<size_t>(c)] = backend_->profile().of(static_cast<OpClass>(c)).seconds;
  }
  t.ops_known = timed;
  for (const Comm* comm : counted_) {
    // "embedding" joins first and last stage: its time belongs to the pipeline.
    const bool tp = comm->name() == "tp";
    const bool pp = comm->name() == "pp" || comm->name() == "embedding";
    if (comm->size() == 1) continue;  // there is nobody to wait for
    t.waits_known = t.waits_known && (timed || !comm->waits_on_device());
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
  STRETTO_CHECK(has_held_out());
  const Sampler& sampler = *data_.held_out;
  const int64_t per_batch = config_.global_batch;
  double sum = 0;
  int64_t done = 0;
  for (int64_t b = 0; b < batches && done < sampler.samples_per_epoch(); ++b) {
    const int64_t samples = std::min(per_batch, sampler.samples_per_epoch() - done);
    const auto& shares = batch_->deal(sampler, done, samples);
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
