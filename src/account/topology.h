// How a run is cut over ranks: one value, which configurations, the engine, the planner and records
// share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "account/run_shape.h"

namespace stretto {

// How the layers are dealt out to the virtual stages of a pipeline: evenly, or as listed.
struct Partition {
  // Embedding and head count as one layer each, so that the ends get fewer layers.
  bool ends_count = false;
  std::vector<int64_t> listed = {};  // layers per virtual stage
  std::string unknown = {};          // words that say neither; a rule refuses them

  Partition() = default;
  Partition(std::string_view words);  // NOLINT(google-explicit-constructor)
  Partition(const char* words) : Partition(std::string_view(words)) {}  // NOLINT
  std::string words() const;  // "transformer", "transformer+embedding", "[3,4,5]"
  // Layers per virtual stage.
  std::vector<int64_t> over(int64_t layers, int64_t stages) const;
  bool operator==(const Partition&) const = default;
};

struct Topology {
  int64_t dp = 1;
  int64_t tp = 1;
  int64_t pp = 1;
  int zero = 0;            // 0 NO_SHARD, 1 ZeRO-1, 2 SHARD_GRAD_OP, 3 FULL_SHARD
  int64_t zero_group = 0;  // hybrid shard: ranks per sharding group, 0 = the whole dp axis
  int64_t interleave = 1;  // model chunks per pipeline rank (v)
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;  // as asked for
  bool sequence_parallel = true;
  Partition partition = {};
  std::string order = "tp,dp,pp";  // rank order, innermost first

  int64_t ranks() const { return dp * tp * pp; }
  int64_t stages() const { return pp * interleave; }  // virtual ones
  int64_t sharing_ranks() const { return zero_group > 0 ? zero_group : dp; }
  // The schedule that really runs. More than one chunk per rank means the interleaved one. On a
  // single stage the order of tasks makes no difference, so micro-batches are taken in turn.
  PipelineSchedule running_schedule() const {
    if (pp == 1) return PipelineSchedule::one_f_one_b;
    return interleave > 1 ? PipelineSchedule::interleaved : schedule;
  }
  bool operator==(const Topology&) const = default;
};

}  // namespace stretto
