#include "parallel/volume.h"

#include <algorithm>

namespace stretto {
namespace {

class Counter {
 public:
  Counter(const RankShape& shape, std::span<const int64_t> micro_batches, PipelinePlace place,
          int replicas)
      : s_(shape),
        types_(shape.types()),
        layout_(flat_layout(shape)),
        micro_batches_(micro_batches),
        place_(place),
        tp_(static_cast<int>(shape.tp)),
        dp_(static_cast<int>(shape.dp)),
        replicas_(replicas) {}

  CommVolume count() {
    for (const int64_t batch : micro_batches_) {
      count_tensor_parallel(batch);
      count_pipeline(batch);
    }
    const auto steps = static_cast<uint64_t>(micro_batches_.size());
    for (const FlatUnit& unit : layout_.units) {
      for (const FlatPart& part : unit.parts) count_gradients(unit, part, steps);
    }
    if (s_.zero == 3) count_gathered_weights(steps);
    count_scalars(steps);
    return v_;
  }

 private:
  // Sums partial results of a product over the tensor-parallel ranks, `n` times.
  void reduce_stream(uint64_t bytes, uint64_t n) {
    if (s_.gathers_sequence()) {
      v_.tp.reduce_scatter_bytes += n * ring_share_bytes(bytes, tp_);
    } else {
      v_.tp.all_reduce_bytes += n * ring_all_reduce_bytes(bytes, tp_);
    }
  }
  void gather_stream(uint64_t bytes, uint64_t n) {
    if (s_.gathers_sequence()) v_.tp.all_gather_bytes += n * ring_share_bytes(bytes, tp_);
  }

  uint64_t stream_bytes(int64_t batch) const {  // (B, T, C)
    return static_cast<uint64_t>(batch * s_.seq_len * s_.model.hidden) * dtype_size(types_.compute);
  }

  void count_tensor_parallel(int64_t batch) {
    const uint64_t x = stream_bytes(batch);
    for (const auto& chunk : s_.chunks) {
      for (const int64_t layer : chunk) count_layer(layer_table(s_.model, layer), x);
    }
    if (s_.first_stage) {
      reduce_stream(x, 1);
      gather_stream(x, 1);
    }
    if (!s_.last_stage) return;
    reduce_stream(x, 1);
    gather_stream(x, 1);
    const int64_t rows = batch * s_.seq_len;
    for (int64_t begin = 0; begin < rows; begin += s_.loss_rows()) {  // f32 per row
      const auto bytes = static_cast<uint64_t>(4 * std::min(s_.loss_rows(), rows - begin));
      v_.tp.all_gather_bytes += ring_share_bytes(bytes * static_cast<uint64_t>(tp_), tp_);
      v_.tp.all_reduce_bytes += ring_all_reduce_bytes(bytes, tp_);
    }
  }

  void count_layer(const LayerTable& layer, uint64_t bytes) {
    for (const TrafficSpec& traffic : layer.traffic) {
      const auto n = static_cast<uint64_t>(traffic.times) * times(traffic.phase);
      if (traffic.call == StreamCall::gather) {
        gather_stream(bytes, n);
      } else {
        reduce_stream(bytes, n);
      }
    }
  }

  // How often a micro-batch goes through a phase.
  uint64_t times(Phase phase) const {
    switch (phase) {
      case Phase::forward:
      case Phase::backward:
        return 1;
      case Phase::repeat:
        return s_.checkpointing == Checkpointing::full
                   ? static_cast<uint64_t>(recomputations(s_.split_backward))
                   : 0;
      case Phase::deferred:
        return s_.split_backward ? 1 : 0;
    }
    return 0;
  }

  void count_pipeline(int64_t batch) {
    const uint64_t x = stream_bytes(batch) / (s_.gathers_sequence() ? s_.tp : 1);
    const uint64_t chunks = s_.chunks.size();
    const bool first = place_.rank == 0;
    const bool last = place_.rank == place_.ranks - 1;
    v_.pp.send_bytes += x * (2 * chunks - (first ? 1 : 0) - (last ? 1 : 0));
  }

  // One part of a unit: its gradients to their owners, and the updated weights back.
  void count_gradients(const FlatUnit& unit, const FlatPart& part, uint64_t steps) {
    const int64_t elements = part.count();
    const bool replicated = part.group == Group::tensor;
    const bool each = s_.reduces_each_micro_batch();
    const uint64_t times = each ? steps : 1;
    const uint64_t own_type = static_cast<uint64_t>(elements) * dtype_size(types_.gradient);
    const uint64_t bytes = static_cast<uint64_t>(elements) * dtype_size(s_.sent_gradient());
    if (replicated && s_.gathers_sequence()) {
      v_.tp.all_reduce_bytes += times * ring_all_reduce_bytes(own_type, tp_);
    }
    if (each || s_.zero > 0) {
      v_.dp.reduce_scatter_bytes += times * ring_share_bytes(bytes, dp_);
    } else {
      v_.dp.all_reduce_bytes += ring_all_reduce_bytes(bytes, dp_);
    }
    if (replicas_ > 1) {
      v_.dp.all_reduce_bytes +=
          ring_all_reduce_bytes(bytes / static_cast<uint64_t>(dp_), replicas_);
    }
    if (each && s_.zero == 0) v_.dp.all_gather_bytes += ring_share_bytes(bytes, dp_);
    if (s_.zero == 1 || s_.zero == 2) {
      const uint64_t weights = static_cast<uint64_t>(elements) * dtype_size(types_.compute);
      v_.dp.all_gather_bytes += ring_share_bytes(weights, dp_);
    }
    const bool ends = place_.ranks > 1 && s_.model.tied_embedding && unit.role == Role::tokens;
    if (ends && !replicated) {
      const uint64_t owned = each || s_.zero > 0 ? own_type / static_cast<uint64_t>(dp_) : own_type;
      v_.embedding.all_reduce_bytes += ring_all_reduce_bytes(owned, 2);
    }
  }

  // When backward begins, the last two layers are still there; other units are gathered once per
  // step.
  void count_gathered_weights(uint64_t steps) {
    uint64_t layers = 0;
    uint64_t layer_bytes = 0;
    for (const FlatUnit& unit : layout_.units) {
      const uint64_t size = dtype_size(types_.compute);
      uint64_t bytes = 0;
      for (const FlatPart& part : unit.parts) {
        bytes += ring_share_bytes(static_cast<uint64_t>(part.count()) * size, dp_);
      }
      if (unit.role != Role::layer) {
        v_.dp.all_gather_bytes += bytes;
      } else {
        ++layers;
        layer_bytes = bytes;  // all layers are alike
      }
    }
    const uint64_t again = layers > 2 ? layers - 2 : 0;
    v_.dp.all_gather_bytes += layer_bytes * (layers + (2 * steps - 1) * again);
  }

  // Gradient statistics and the loss, f64.
  void count_scalars(uint64_t steps) {
    if (s_.zero >= 1) {
      const auto pieces = static_cast<uint64_t>(24 * stat_piece_count(layout_));
      v_.dp.all_reduce_bytes += ring_all_reduce_bytes(pieces, dp_);
    }
    v_.tp.all_reduce_bytes += ring_all_reduce_bytes(24, tp_);
    v_.pp.all_reduce_bytes += ring_all_reduce_bytes(24, place_.ranks);
    if (s_.last_stage) {
      const int ranks = dp_ * replicas_;
      v_.dp.all_gather_bytes += ring_share_bytes(8 * steps * static_cast<uint64_t>(ranks), ranks);
    }
    v_.pp.broadcast_bytes += ring_share_bytes(8, place_.ranks);
  }

  const RankShape& s_;
  PrecisionTypes types_;
  FlatLayout layout_;
  std::span<const int64_t> micro_batches_;
  PipelinePlace place_;
  int tp_;
  int dp_;
  int replicas_;
  CommVolume v_;
};

}  // namespace

CommVolume expected_volume(const RankShape& shape, std::span<const int64_t> micro_batches,
                           PipelinePlace place, int replicas) {
  return Counter(shape, micro_batches, place, replicas).count();
}

}  // namespace stretto
