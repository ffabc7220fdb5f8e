#include "train/optimizer.h"

#include <cmath>

#include "model/host_values.h"
#include "model/initialise.h"

namespace stretto {

Optimizer::Optimizer(Backend& backend, Gpt& gpt, OptimizerSettings settings)
    : backend_(backend), gpt_(gpt), settings_(settings) {
  RankMemory& memory = gpt.memory();
  if (types_of(gpt.shape().precision).has_master) master_ = memory.at("master");
  m_ = memory.at("m");
  v_ = memory.at("v");
  pieces_ = memory.at("stats.pieces");
  sum_ = memory.at("stats.sum");
  control_ = memory.at("stats.control");
  plan_segments();
  plan_pieces();
}

Tensor Optimizer::state(const char* name) {
  const std::string_view which = name;
  return which == "master" ? master_ : which == "m" ? m_ : v_;
}

void Optimizer::initialise(uint64_t seed) {
  const RankShape& shape = gpt_.shape();
  initial_values(gpt_.layout(), shape.model.vocab, shape.tp, gpt_.comms().tp->rank(), seed,
                 [this](size_t unit, int64_t begin, const float* values, int64_t count) {
                   assign(unit, begin, values, count);
                 });
}

void Optimizer::assign(size_t unit, int64_t begin, const float* values, int64_t count) {
  gpt_.weights().assign(unit, begin, values, count);
  if (master_.none()) return;
  const bool sharded = gpt_.shape().zero >= 1;
  const FlatUnit& flat = gpt_.layout().units[unit];
  for (const OwnedStretch& s :
       owned_stretches(flat, {begin, begin + count}, sharded ? gpt_.layout().dp : 1,
                       sharded ? gpt_.comms().dp->rank() : 0)) {
    assign_host_values(backend_, master_.slice(s.shard_begin, s.shard_begin + s.count),
                       values + (s.flat_begin - begin));
  }
}

void Optimizer::plan_pieces() {
  const FlatLayout& layout = gpt_.layout();
  const RankComms comms = gpt_.comms();
  const bool sharded = gpt_.shape().zero >= 1;
  const int64_t parts = pieces_per_half(layout.dp);
  const int64_t mine = sharded ? parts / layout.dp : parts;
  const int64_t first = sharded ? mine * comms.dp->rank() : 0;
  for (size_t u = 0; u < layout.units.size(); ++u) {
    // The last stage's copy of a tied table is counted on the first.
    const bool copy = layout.units[u].name == "wte" && comms.ends && !gpt_.shape().first_stage;
    for (int half = 0; half < 2 && !copy; ++half) {
      if (half == 1 && comms.tp->rank() != 0) continue;  // replicated: counted once
      const Tensor grad = gpt_.gradients().owned(u, half);
      const int64_t size = grad.count() / mine;
      const int64_t row = (static_cast<int64_t>(u) * 2 + half) * parts + first;
      if (size == 0) continue;
      stat_pieces_.push_back(
          {pieces_.slice(3 * row, 3 * (row + mine)).view({mine, 3}), grad.slice(0, size * mine)});
    }
  }
}

// Fills one row of statistics per piece; pieces of other ranks stay zero, so adding the rows of all
// data-parallel ranks is exact.
void Optimizer::collect_stats() {
  const RankComms comms = gpt_.comms();
  backend_.fill_zero(pieces_);
  for (const Piece& piece : stat_pieces_) backend_.gradient_stats(piece.rows, piece.grad);
  if (gpt_.shape().zero >= 1) comms.dp->all_reduce(pieces_);
  backend_.sum_stats(sum_, pieces_.view({pieces_.count() / 3, 3}));
  comms.tp->all_reduce(sum_);
  comms.pp->all_reduce(sum_);
}

void Optimizer::start_step(double lr, double loss_scale, int64_t step) {
  collect_stats();
  backend_.clip_control(control_, sum_, settings_.clip, static_cast<float>(1.0 / loss_scale));
  AdamWOptions options{static_cast<float>(lr),
                       settings_.beta1,
                       settings_.beta2,
                       settings_.eps,
                       0,
                       step,
                       settings_.seed,
                       0};
  for (const Segment& s : segments_) {
    options.weight_decay = s.decay ? settings_.weight_decay : 0.0f;
    options.first_index = s.first_index;
    backend_.adamw(s.weight, s.master, s.m, s.v, s.grad, control_, options);
  }
  gpt_.weights().publish();
}

StepResult Optimizer::result(double loss_scale) {
  double sums[3];
  float control[2];
  backend_.copy_to_host(sums, sum_);
  backend_.copy_to_host(control, control_);
  return {std::sqrt(sums[0]) / loss_scale, sums[1], control[1] != 0};
}

void Optimizer::plan_segments() {
  const FlatLayout& layout = gpt_.layout();
  const bool sharded = gpt_.shape().zero >= 1;
  const int64_t dp = sharded ? layout.dp : 1;
  const int64_t rank = sharded ? gpt_.comms().dp->rank() : 0;
  for (size_t u = 0; u < layout.units.size(); ++u) {
    const FlatUnit& unit = layout.units[u];
    for (int half = 0; half < 2; ++half) {
      const FlatRange range =
          half == 0 ? owned_cut(unit, dp, rank) : owned_replicated(unit, dp, rank);
      const Tensor weight = gpt_.weights().owned(u, half), grad = gpt_.gradients().owned(u, half);
      const int64_t state = (half == 0 ? unit.begin : unit.replicated) / dp;
      for (const FlatSegment& segment : decay_segments(unit, range)) {
        const int64_t begin = segment.begin - range.begin, end = segment.end - range.begin;
        const Tensor w = weight.slice(begin, end);
        // fp32 weights are their own master.
        const Tensor master = w.dtype() == DType::f32 ? w
                              : master_.none()        ? Tensor()
                                                      : master_.slice(state + begin, state + end);
        segments_.push_back({w, master, m_.slice(state + begin, state + end),
                             v_.slice(state + begin, state + end), grad.slice(begin, end),
                             segment.decay, static_cast<uint64_t>(segment.begin)});
      }
    }
  }
}

}  // namespace stretto
