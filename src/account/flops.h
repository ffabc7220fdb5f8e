// FLOPs of a training step: the only place in the program with a FLOP formula.
//
// A convention defines which of a GPT's multiplications, and what else, is counted. Published
// figures use different ones, so every utilisation is named after its convention. Tests compare
// `causal` and `hardware` with a list of all matrix products, and `hardware` with what operators
// execute. A multiply-add counts as two. Nothing depends on how a run is divided among ranks,
// except through RunCut: `megatron-old` needs the ranks to reproduce old figures, and `hardware`
// must know of a backward pass in two parts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "account/layer_table.h"

namespace stretto {

// mpt:          6N + 12 L C T per token, N with positions and look-ups; full recompute x 4/3
// mosaicgpt:    6N + 4 L C T; with recompute 8N + 6 L C T
// megatron:     72 L C^2 (1 + T/6C + V/16LC); with recompute 96
// megatron_old: 6P, with recompute 8P; P without embeddings, replicated parts counted per rank
// causal:       the matrix products of a causal model, nothing for look-ups
// hardware:     the products that our kernels execute, recomputation included: twice where the
//               backward pass is split (zero bubble)
enum class Convention { mpt, mosaicgpt, megatron, megatron_old, causal, hardware };
inline constexpr std::array kConventions = {Convention::mpt,      Convention::mosaicgpt,
                                            Convention::megatron, Convention::megatron_old,
                                            Convention::causal,   Convention::hardware};

const char* name_of(Convention convention);
Convention convention_from_name(std::string_view name);  // throws Error listing the names

// FLOPs by product, and what the convention counts in addition (look-ups, biases, norms).
struct FlopsSplit {
  std::array<double, kProducts> product{};
  double other = 0;

  double& operator[](Product p) { return product[static_cast<size_t>(p)]; }
  double operator[](Product p) const { return product[static_cast<size_t>(p)]; }
  double total() const;
  double without_attention() const;  // the starred figures
};

struct FlopsPerToken {
  FlopsSplit model;      // what the model needs
  FlopsSplit recompute;  // what checkpointing makes it compute again

  double model_total() const { return model.total(); }
  double hardware_total() const { return model.total() + recompute.total(); }
};

struct RunCut {
  int64_t tp = 1;  // megatron_old: the ranks whose parameters that program added up
  int64_t pp = 1;
  bool split_backward = false;  // hardware
};

FlopsPerToken flops_per_token(Convention convention, const ModelShape& model, int64_t seq,
                              Checkpointing checkpointing, RunCut cut = {});

// Fractions of the peak. MFU counts model FLOPs, HFU also recomputation; starred figures leave
// attention out.
struct Utilization {
  double mfu = 0, mfu_star = 0, hfu = 0, hfu_star = 0;
};

// `peak` is in FLOP/s per device. Empty if the peak is unknown.
std::optional<Utilization> utilization(const FlopsPerToken& flops, double tokens_per_second,
                                       double devices, std::optional<double> peak);

}  // namespace stretto
