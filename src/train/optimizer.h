// AdamW over the parameters that this rank owns. Global gradient norm, clipping and the decision to
// skip a step are taken once for all ranks.
//
// With optimizer_offload the state is in host memory and passes through two windows on the device:
// while one is copied in or out, the other is updated by the same operator, so the results have the
// same bits.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "model/gpt.h"

namespace stretto {

struct OptimizerSettings {
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float eps = 1e-8f;
  float weight_decay = 0.1f;
  float clip = 1.0f;
  uint64_t seed = 0;  // for the stochastic rounding of bf16 weights that have no master
};

struct StepResult {
  double grad_norm = 0;  // before clipping, loss scale removed
  double zeros = 0;      // gradient elements that are exactly zero
  bool skipped = false;  // gradients were NaN or infinite: nothing was changed
};

class Optimizer {
 public:
  Optimizer(Backend& backend, Gpt& gpt, OptimizerSettings settings);

  // Sets the initial weights and their masters.
  void initialise(uint64_t seed);
  // Sets the weights (and their masters) in the flat range [begin, begin + count) of a unit.
  void assign(size_t unit, int64_t begin, const float* values, int64_t count);

  // One update from the finished gradients. `scale` is the loss scale they carry; `step` counts
  // updates from 1.
  StepResult step(double lr, double loss_scale, int64_t step) {
    start_step(lr, loss_scale, step);
    return result(loss_scale);
  }
  // step() in two parts: start_step() queues the work, result() waits for norm and decision. The
  // host is free between the two, and the device may still be updating after the second.
  void start_step(double lr, double loss_scale, int64_t step);
  StepResult result(double loss_scale);

  // State tensors by name ("master", "m", "v"), in the memory of state_backend(); a checkpoint
  // walks them with owned_stretches().
  Tensor state(const char* name);
  Backend& state_backend() { return host_backend_ ? *host_backend_ : backend_; }

 private:
  // A stretch of the offloaded state with what is updated in it.
  struct Window {
    struct Part {
      Tensor device, host;
    };
    std::vector<Part> parts;  // master, m, v
    std::vector<AdamWSegment> segments;
  };
  // One part of a unit: rows (n, 3) of statistics, one per equal part of its gradients.
  struct Piece {
    Tensor rows;
    ConstTensor grad;
  };
  void plan_segments();
  void attach_state();
  void plan_windows();
  void update_windows(const AdamWOptions& options);
  void plan_pieces();
  void count_padding();
  void collect_stats();

  Backend& backend_;
  Gpt& gpt_;
  OptimizerSettings settings_;
  Tensor master_, m_, v_;
  Tensor pieces_, sum_, control_;
  struct Numbers {  // of a step, as the device sends them
    double sums[3];
    float control[2];
  };
  Buffer sent_;  // one Numbers
  Event arrived_;
  // Owned parameters by decay setting, made once: a step allocates nothing.
  std::vector<AdamWSegment> segments_;
  std::vector<int64_t> state_begin_;  // of each segment's first element, in the state tensors
  std::vector<Piece> stat_pieces_;
  double padding_ = 0;  // elements in the pieces of all ranks that are no parameters, and zero
  std::unique_ptr<Backend> host_backend_;  // offloaded state of a device
  std::vector<Window> windows_;            // not empty: the state is offloaded
  std::array<Event, 2> left_;              // a window's last copy to the host
};

}  // namespace stretto
