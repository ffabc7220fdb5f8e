// Rules that are checked first. If they hold, products of sizes fit into 64 bits, so that
// everything else may multiply.
#include <fmt/format.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "config/rule_set.h"

namespace stretto {
namespace {

void world_size(const Config& c, Report& report) {
  constexpr int64_t kMost = 1 << 20;
  // dp and tp are each at most 2^20, so their product fits; pp is divided out.
  if (c.parallel.dp * c.parallel.tp <= kMost / c.parallel.pp) return;
  report.add("parallel.dp",
             fmt::format("x {} x {} is more than {} ranks", shown(c, "parallel.tp"),
                         shown(c, "parallel.pp"), kMost),
             "use smaller degrees");
}

// An upper bound for a rank's activations: everything that layers keep of every token that may be
// in flight, at 4 bytes each, and what attention's backward pass needs on a GPU (gpu_overhead in
// account/memory.cpp): sums and dq, or the gradients of all scores.
double most_activation_bytes(const Config& c) {
  const auto d = [](int64_t n) { return static_cast<double>(n); };
  const double samples = d(ceil_div(c.global_batch, c.parallel.dp));
  const double micro_batch = c.micro_batch == kAuto ? samples : d(c.micro_batch);
  const double seq = d(c.seq_len), hidden = d(c.model.hidden), heads = d(c.model.heads);
  const double token = 14 * hidden + 3 * d(c.model.ffn) + heads + 16;
  double bytes = 4 * (samples + micro_batch) * seq * token * (d(c.model.layers) + 4);
  if (c.device == Device::cuda) {
    bytes += 4 * micro_batch * seq * (2 * hidden + 3 * heads) +
             2 * micro_batch * heads * (seq + 64) * (seq + 128);
  }
  return bytes;
}

void countable(const Config& c, Report& report) {
  constexpr double kMost = 0x1p62;
  if (most_activation_bytes(c) <= kMost) return;
  report.add("seq_len",
             fmt::format("with {}, {} and this model makes more activations than can be counted "
                         "in 64 bits",
                         shown(c, "micro_batch"), shown(c, "global_batch")),
             "use shorter or fewer sequences, or a smaller model");
}

constexpr Rule kRules[] = {
    {"world-size", Severity::error, world_size},
    {"countable", Severity::error, countable},
};

}  // namespace

std::span<const Rule> size_rules() { return kRules; }

}  // namespace stretto
