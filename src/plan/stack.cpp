#include "plan/stack.h"

#include "base/error.h"

namespace stretto::plan {
namespace {

// clang-format off
constexpr ConstantInfo kInfo[] = {
    {Constant::gemm, "gemm", "fraction", 0.80, 0.15, 0.05, 1.0,
     "dense products at full waves, of the matrix peak"},
    {Constant::wave, "wave", "fraction", 0.5, 0.7, 0.02, 1.0,
     "share of the last wave's idle units that is paid"},
    {Constant::ramp, "ramp", "elements of K", 128, 0.7, 4, 2000,
     "fill and drain of a tile"},
    {Constant::fp8, "fp8", "ratio", 1.8, 0.15, 1.0, 2.5, "fp8 over bf16 product rate"},
    {Constant::misaligned, "misaligned", "fraction", 2.3, 0.4, 0.1, 16,
     "dense products with a size that is no multiple of 8, of the vector peak"},
    {Constant::misaligned_batched, "misaligned_batched", "fraction", 0.55, 0.4, 0.1, 16,
     "batched products with a head size that is no multiple of 8, of the vector peak"},
    {Constant::hbm, "hbm", "fraction", 0.70, 0.2, 0.002, 8.0,
     "memory-bound passes, of the memory bandwidth (above 1: from caches)"},
    {Constant::softmax, "softmax", "bytes/score", 6, 0.4, 1, 2000,
     "traffic of the softmax per score, forward"},
    {Constant::unfused, "unfused", "bytes/score", 30, 0.3, 4, 100,
     "extra traffic per score and pass without the fused softmax"},
    {Constant::flash_forward, "flash_forward", "fraction", 0.50, 0.25, 0.01, 1.0,
     "flash attention forward, of the matrix peak"},
    {Constant::flash_backward, "flash_backward", "fraction", 0.28, 0.25, 0.01, 1.0,
     "flash attention backward, of the matrix peak"},
    {Constant::flash_64, "flash_64", "ratio", 1.0, 0.15, 0.2, 1.5,
     "flash attention with head size 64, of 128"},
    {Constant::flash_ramp, "flash_ramp", "keys", 1e-3, 1.0, 1e-6, 1e4,
     "flash attention beside its products, as if every row had so many more keys"},
    {Constant::cross_entropy, "cross_entropy", "bytes/logit", 20, 0.4, 1, 120,
     "traffic of the loss per logit, forward and backward"},
    {Constant::link, "link", "fraction", 0.55, 0.3, 0.02, 1.0,
     "collectives inside the link domain, of the link bandwidth"},
    {Constant::net, "net", "fraction", 0.35, 0.5, 0.01, 1.0,
     "collectives between nodes, of the node's bandwidth"},
    {Constant::rail, "rail", "fraction", 1e-3, 1.0, 1e-4, 4,
     "more time between nodes for a ring with many members per node: few of the ports carry it"},
    {Constant::sync, "sync", "seconds/hop", 5e-4, 1.5, 1e-6, 20,
     "wait per hop between nodes, once per iteration"},
    {Constant::gap, "gap", "seconds", 4e-6, 0.7, 1e-8, 1e-2, "between two kernels"},
    {Constant::accumulate, "accumulate", "bytes/parameter", 10, 0.6, 0.1, 100,
     "gradient accumulation per micro-batch"},
    {Constant::optimizer, "optimizer", "bytes/parameter", 60, 0.5, 4, 1000,
     "traffic of one optimizer step"},
    {Constant::fixed, "fixed", "seconds", 0.02, 1.0, 1e-6, 100, "per iteration"},
    {Constant::recompute, "recompute", "ratio", 1.0, 0.07, 0.5, 1.5,
     "the recomputed pass, of a forward pass"},
    {Constant::interference, "interference", "fraction", 0.25, 0.5, 0.001, 1.0,
     "slow-down of overlapped compute and communication"},
    {Constant::transfer, "transfer", "ratio", 1.0, 0.5, 0.02, 20,
     "pipeline transfers, exposed share"},
    {Constant::host, "host", "ratio", 1.04, 0.03, 1.0, 1.3, "machine before its repair"},
    {Constant::boost, "boost", "ratio", 1.10, 0.06, 1.0, 1.4,
     "the fast clock mode over the normal one"},
    {Constant::spread, "spread", "fraction", 0.002, 1.0, 1e-6, 0.1,
     "relative spread of step time between nodes"},
    {Constant::param_bytes, "param_bytes", "bytes/parameter", 4.2, 0.2, 1, 20,
     "weights and gradients on every replica"},
    {Constant::state_bytes, "state_bytes", "bytes/parameter", 16, 0.2, 2, 40,
     "what ZeRO shards"},
    {Constant::activation, "activation", "ratio", 1.0, 0.2, 0.3, 4, "kept activations, of the count"},
    {Constant::memory_fixed, "memory_fixed", "bytes", 6e9, 0.4, 1e6, 4e10, "context and buffers"},
    {Constant::workspace, "workspace", "ratio", 1.0, 0.4, 0.1, 10, "working set of one layer, of the count"},
    {Constant::slack, "slack", "ratio", 0.8, 0.5, 0.001, 10,
     "what a caching allocator holds beside the kept activations on an empty card, of their count"},
};
// clang-format on
static_assert(std::size(kInfo) == kConstants);
// The table is indexed by the constant.
static_assert([] {
  for (size_t i = 0; i < kConstants; ++i) {
    if (kInfo[i].id != static_cast<Constant>(i)) return false;
  }
  return true;
}());

}  // namespace

const ConstantInfo& info(Constant id) { return kInfo[static_cast<size_t>(id)]; }

std::array<Prior, kConstants> default_priors() {
  std::array<Prior, kConstants> priors;
  for (const ConstantInfo& i : kInfo) priors[static_cast<size_t>(i.id)] = {i.prior, i.sigma};
  return priors;
}

Constants::Constants() {
  for (const ConstantInfo& i : kInfo) set(i.id, i.prior);
}

}  // namespace stretto::plan
