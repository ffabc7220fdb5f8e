// Gradient storage and its reduction over data-parallel ranks.
//
// Two ways. By default a rank adds up its micro-batches in one flat buffer and reduces each unit
// once, while the last micro-batch's backward pass is still running. Where the order of sums must
// not depend on dp (deterministic), or where no rank may hold all gradients (ZeRO 2 and 3), each
// micro-batch's unit goes through a buffer of its own and is reduced at once: the owner adds
// rank 0's, rank 1's, ... part to what it has. Micro-batches are dealt out in turn, so this order
// is micro-batch order for every dp.
//
// With parallel.reduce_dtype=bf16 a rounded copy of each unit travels instead of the gradients
// themselves: sums are taken in f32 in rank order and rounded once (NCCL's own sums add bf16 as it
// likes); what is added up over micro-batches stays in f32.
//
// With hybrid sharding `dp` is one group of ranks that share a copy of the model; what it has
// reduced is then summed over the copies, once per step.
#pragma once

#include <vector>

#include "comm/comm.h"
#include "model/weights.h"

namespace stretto {

class Gradients {
 public:
  Gradients(Backend& backend, const RankShape& shape, const FlatLayout& layout, RankMemory& memory,
            Comm& dp, Comm& tp, Comm* replica = nullptr);

  void begin_step(int64_t micro_batches);
  // A unit's flat buffer for the micro-batch in work. Matrices are written with matrix_mode();
  // vectors, LayerNorm and embedding gradients always accumulate (their space is zeroed first).
  Tensor open(size_t unit);
  const LayerGrads& layer(size_t unit);
  // A tensor over the unit's buffer; write to it only between open() and close().
  Tensor parameter(size_t unit, const std::string& name) const {
    return parameter_in(layout_.units[unit], base_[unit], name);
  }
  // `overwrite` for the first writer since the buffer was last reduced, then `accumulate`.
  Grad matrix_mode(size_t unit);
  // No more gradients for this unit from this micro-batch: reduces when its turn has come.
  void close(size_t unit);
  // Waits until every unit's owned part is final. `ends` joins the pipeline's first and last stage,
  // which both hold a tied token table (nullptr: this rank holds the only one).
  void finish_step(Comm* ends);

  // How far the step has come, without the values: what a replayed micro-batch must set by hand.
  struct UnitState {
    int64_t closed = 0;    // micro-batches closed this step
    bool open = false;     // small parts are zeroed, the buffer is ours
    bool written = false;  // matrices hold a value to add to
  };
  const std::vector<UnitState>& progress() const { return state_; }
  void set_progress(const std::vector<UnitState>& progress) { state_ = progress; }

  // After finish_step: the reduced gradients of the part that this rank's optimizer updates.
  Tensor owned(size_t unit, int half);

 private:
  // A rounded copy of a unit on its way.
  struct Sent {
    Tensor buffer;
    size_t unit = 0;
    RequestPtr pending[2];  // by half
  };
  void zero_small(size_t unit, Tensor base);
  void reduce(size_t unit);
  void send_rounded(size_t unit);
  void deliver(Sent& sent);  // waits, and puts the sums where they belong
  void sum_over_replicas(Tensor part);
  Tensor half_of(size_t unit, int half, Tensor of_unit) const;
  void wait(size_t buffer);
  Tensor owned_part(size_t unit, int half);

  Backend& backend_;
  const RankShape& shape_;
  const FlatLayout& layout_;
  Comm& dp_;
  Comm& tp_;
  Comm* replica_;
  Tensor flat_;
  std::vector<size_t> buffer_of_;  // unit -> buffer; layers share two
  std::vector<Tensor> buffers_;
  std::vector<std::vector<RequestPtr>> pending_;  // per buffer
  std::vector<Tensor> base_;                      // unit -> its buffer, cut to its size
  std::vector<LayerGrads> layers_;                // unit -> gradients by role
  std::vector<UnitState> state_;
  std::vector<Sent> sent_;  // two where gradients are rounded on their way, else none
  size_t next_sent_ = 0;
  Tensor sum_;  // scratch of deliver(), ZeRO 2 and 3
  int64_t micro_batches_ = 1;
};

}  // namespace stretto
