// One rank of a training run: owns the backend, the model part, the optimizer and the data, and
// makes steps. The loop around it (run.h) prints, evaluates, saves and stops.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "config/config.h"
#include "model/gpt.h"
#include "parallel/mesh.h"
#include "train/batch_reader.h"
#include "train/gpu_clock.h"
#include "train/loss_scaler.h"
#include "train/optimizer.h"
#include "train/pipeline.h"
#include "train/rank_backend.h"
#include "train/run_data.h"
#include "train/step_record.h"

namespace stretto {

// What must be saved, beside the tensors, for a run to continue exactly.
struct TrainerState {
  int64_t step = 0;
  int64_t updates = 0;
  int64_t consumed_samples = 0;
  int64_t skipped_total = 0;
  int64_t skipped_in_a_row = 0;
  int64_t nan_total = 0;
  LossScaler::State loss_scale;
};

// Communicators for tensors in device memory; all null where the backend uses host memory.
struct DeviceComms {
  std::unique_ptr<Comm> dp, tp, pp, ends, replica;
};

// Aborts NCCL's communicators when an exception unwinds the stack, before any other member is
// destroyed. Freeing GPU memory waits for all work queued there, and queued NCCL work waits for
// peers that may never come.
class LetGoOnError {
 public:
  explicit LetGoOnError(DeviceComms& comms)
      : comms_(comms), exceptions_(std::uncaught_exceptions()) {}
  ~LetGoOnError();
  LetGoOnError(const LetGoOnError&) = delete;
  LetGoOnError& operator=(const LetGoOnError&) = delete;

 private:
  DeviceComms& comms_;
  int exceptions_;
};

class Trainer {
 public:
  // Collective over `world`. `config` is valid (require_valid) and has a definite micro_batch.
  Trainer(const Config& config, Comm& world, const TunableOptions& tunables = {});

  void initialise();  // sets fresh weights
  StepRecord step();
  // Whether later steps time each operator on the device, which makes those steps longer. On a CPU
  // operators are always timed.
  void time_operators(bool on);
  // Mean loss over held-out samples: `batches` global batches, forward only.
  double evaluate(int64_t batches);

  const Config& config() const { return config_; }
  Backend& backend() { return *backend_; }
  Gpt& gpt() { return *gpt_; }
  Optimizer& optimizer() { return *optimizer_; }
  MeshComms& comms() { return comms_; }
  Comm& world() { return world_; }
  const Mesh& mesh() const { return mesh_; }
  const Coordinates& at() const { return at_; }
  TrainerState& state() { return state_; }
  LossScaler& scaler() { return scaler_; }
  const RunData& data() const { return data_; }
  // Before the first step: what a run that goes on trained on before, see run_data.h.
  void train_on(int64_t tokens) { stretto::train_on(data_, config_, tokens); }
  bool has_held_out() const { return data_.held_out != nullptr; }
  // Whether this rank prints and writes files on behalf of the job.
  bool speaks() const { return world_.rank() == 0; }

 private:
  RankComms tensor_comms();
  void load_batch(size_t chunk, const MicroBatch& mb);
  StepResult update(const StepRecord& record);
  // Losses of this rank's micro-batches: send_losses() starts the copy to the host, global_loss()
  // adds them up once they have arrived.
  void send_losses(int64_t count);
  double global_loss(int64_t count, int64_t tokens);
  void take_times(StepRecord& record, double start);

  Config config_;
  Comm& world_;
  Mesh mesh_;
  Coordinates at_;
  MeshComms comms_;  // in host memory
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<GpuTelemetry> telemetry_;  // none on the CPU or without NVML
  GpuClock clock_;
  DeviceComms device_comms_;
  std::vector<Comm*> counted_;  // their bytes and seconds are reported with each step
  std::unique_ptr<Gpt> gpt_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Pipeline> pipeline_;
  LossScaler scaler_;
  TrainerState state_;
  RunData data_;
  std::unique_ptr<BatchReader> batch_;
  std::vector<double> losses_;
  Buffer my_losses_;  // where the device copies them to
  double data_seconds_ = 0;
  size_t device_bytes_ = 0;
  double peak_ = 0;                     // peak FLOP/s: see StepRecord
  bool by_operator_ = false;            // set by time_operators()
  LetGoOnError let_go_{device_comms_};  // last, so that it is destroyed first
};

}  // namespace stretto
