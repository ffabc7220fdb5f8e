// The software that runs on the cluster: facts (which kernels and collectives it uses), and
// constants (numbers that a fit finds). There is one set of constants per pair of device and
// software.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "account/run_shape.h"
#include "plan/cluster.h"

namespace stretto::plan {

// clang-format off
enum class Constant : size_t {
  gemm, wave, ramp, fp8, misaligned, misaligned_batched, hbm, softmax, unfused, flash_forward,
  flash_backward, flash_64, flash_ramp, cross_entropy, link, net, rail, sync, gap, accumulate,
  optimizer, fixed, recompute, interference, transfer, host, boost, spread,
  param_bytes, state_bytes, activation, memory_fixed, workspace, slack, count
};
// clang-format on
constexpr size_t kConstants = static_cast<size_t>(Constant::count);

struct ConstantInfo {
  Constant id;
  const char* key;
  const char* unit;
  double prior;  // centre of the weak prior; also the value if nothing was fitted
  double sigma;  // width of the prior, in logarithms
  double low, high;
  const char* meaning;
};
const ConstantInfo& info(Constant id);

struct Prior {
  double centre = 0;
  double sigma = 0;  // in logarithms
};

class Constants {
 public:
  Constants();  // all priors
  double operator[](Constant id) const { return values_[static_cast<size_t>(id)]; }
  void set(Constant id, double value) { values_[static_cast<size_t>(id)] = value; }

 private:
  std::array<double, kConstants> values_;
};

std::array<Prior, kConstants> default_priors();

enum class AttentionKernel { materialised, flash };
enum class FusedSoftmax { always, by_heads };  // softmax_rule.h
enum class Sharding { pipeline_3d, fsdp };

struct Abilities {  // what the search may use
  bool tensor = true, pipeline = true, interleave = false, sequence = false;
  bool gelu = false, selective = false;      // checkpointing other than none and full
  bool zero_bubble = false, hybrid = false;  // hybrid: ZeRO inside a node, copies across nodes
  bool overlap_gradients = false;            // the reduction runs during the last backward passes
  std::vector<int> zero = {0};

  bool checkpoints(Checkpointing mode) const {
    if (mode == Checkpointing::gelu) return gelu;
    return mode != Checkpointing::selective || selective;
  }
};

struct Stack {
  std::string name;
  std::string description;
  Sharding sharding = Sharding::pipeline_3d;
  AttentionKernel attention = AttentionKernel::materialised;
  FusedSoftmax fused_softmax = FusedSoftmax::always;
  bool causal_flash = true;  // flash skips the masked half
  Abilities can;
  bool own_runtime = false;   // memory is that of our own plan, exactly
  double gather_bytes = 2;    // bytes per parameter gathered (FSDP)
  double reduce_bytes = 2;    // bytes per gradient element reduced
  double dp_param_bytes = 2;  // bytes per parameter gathered after a ZeRO-1 step
  // Memory-bound work of the backward pass, as a multiple of the forward pass. Less than the
  // traffic suggests where the forward pass is limited by exp and tanh (CPUs).
  double backward_passes = 2.0;
  // Elements per token that the memory-bound passes of a layer move, forward: hidden sizes that
  // every tensor rank moves, hidden sizes that tensor parallelism divides, and feed-forward sizes,
  // which it divides, too.
  double pass_whole = 11, pass_shared = 8, pass_ffn = 2;
  double backward_softmax = 1.25;
  // Recomputation stops when everything that the backward pass reads is there, so it leaves out the
  // last product of a layer.
  bool recompute_stops_early = false;
  bool recompute_in_fp8 = true;  // like the forward pass; otherwise in 16 bits
  bool fused_loss = false;       // no copy of the logits in fp32
  int kernels_forward = 24;      // launches per layer
  int kernels_backward = 44;
  std::array<Prior, kConstants> priors = default_priors();
  std::vector<Constant> free;  // those that runs of this stack can determine
  double huber = 0.008;        // residuals beyond this count linearly in a fit
  double noise = 0.02;         // weight of the rows against the priors
  Constants constants;
  bool fitted = false;         // constants come from runs of this device and software
  int64_t fitted_devices = 0;  // the most that a fitted run had; 0: no limit
  double residual = 0.12;      // relative spread of the fit (robust sigma)
  std::string fit_source;
};

// A known software, or a .yaml file with constants for one (`plan calibrate --write`).
Stack find_stack(const std::string& name_or_path, const Cluster& cluster);
std::vector<std::string> stack_names();

}  // namespace stretto::plan
