// Storage of gradients, and their reduction over data-parallel ranks.
//
// There are two ways. By default a rank adds up its micro-batches in one flat buffer and reduces
// each unit once, while the backward pass of the last micro-batch is still running. Where the order
// of sums must not depend on dp (deterministic), or where no rank may hold all gradients (ZeRO 2
// and 3), the gradients of each micro-batch go through a separate buffer per unit and are reduced
// at once: the owner adds the parts of rank 0, rank 1, ... to what it has. Micro-batches are dealt
// out to the ranks in turn, so this is the order of micro-batches for every dp.
//
// With parallel.reduce_dtype=bf16 a rounded copy of each unit is sent instead of the gradients
// themselves. Sums are taken in f32, in rank order, and rounded once (except NCCL's own sums, which
// add in bf16). What is added up over micro-batches stays in f32.
//
// With hybrid sharding `dp` joins the ranks that share one copy of the model. Their result is then
// summed over the copies, once per step.
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
  // The unit's buffer for the current micro-batch. Matrices are written with matrix_mode().
  // Gradients of vectors, LayerNorm and embedding are always accumulated; their space is cleared
  // first.
  Tensor open(size_t unit);
  const LayerGrads& layer(size_t unit);
  // A tensor over the unit's buffer; write to it only between open() and close().
  Tensor parameter(size_t unit, const std::string& name) const {
    return parameter_in(layout_.units[unit], base_[unit], name, shape_.tp);
  }
  // `overwrite` for the first writer since the buffer was last reduced, then `accumulate`.
  Grad matrix_mode(size_t unit);
  // This micro-batch adds no more gradients to the unit. Starts the reduction if it is time for it.
  void close(size_t unit);
  // Waits until the owned parts of all units are final. `ends` joins the first and last pipeline
  // stage, which both hold a tied token table; null where only one rank holds it.
  void finish_step(Comm* ends);

  // How far the step has come, without the values: the state on the host, which must be set by hand
  // when a micro-batch is replayed.
  struct UnitState {
    int64_t closed = 0;    // micro-batches closed this step
    bool open = false;     // what accumulates is cleared, and the buffer is in use
    bool written = false;  // matrices hold a value to add to
  };
  const std::vector<UnitState>& progress() const { return state_; }
  void set_progress(const std::vector<UnitState>& progress) { state_ = progress; }

  // After finish_step: the reduced gradients of the share of a unit's part that this rank's
  // optimizer updates.
  Tensor owned(const FlatPart& part);

 private:
  // A rounded copy of a unit that is being sent.
  struct Sent {
    Tensor buffer;
    size_t unit = 0;
    std::vector<RequestPtr> pending;  // by part; null where a part is empty
  };
  void zero_small(size_t unit, Tensor base);
  void reduce(size_t unit);
  void send_rounded(size_t unit);
  void deliver(Sent& sent);  // waits, and stores the sums
  void sum_over_replicas(Tensor share);
  // A part of a unit, given a view of the whole unit.
  Tensor part_of(size_t unit, const FlatPart& part, Tensor of_unit) const;
  void wait(size_t buffer);
  Tensor summed(const FlatPart& part);

  Backend& backend_;
  const RankShape& shape_;
  const FlatLayout& layout_;
  Comm& dp_;
  Comm& tp_;
  Comm* replica_;
  Tensor flat_;
  std::vector<size_t> buffer_of_;  // unit -> buffer; layers share two
  std::vector<Tensor> buffers_;
  std::vector<std::vector<RequestPtr>> pending_;  // by buffer
  std::vector<Tensor> base_;                      // unit -> the part of its buffer that it uses
  std::vector<LayerGrads> layers_;                // unit -> gradients by role
  std::vector<UnitState> state_;
  std::vector<Sent> sent_;  // two if gradients are rounded before they are sent, else none
  size_t next_sent_ = 0;
  Tensor sum_;  // scratch of deliver(), ZeRO 2 and 3
  int64_t micro_batches_ = 1;
};

}  // namespace stretto
