#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "model/host_values.h"
#include "model/initialise.h"

namespace stretto {

Optimizer::Optimizer(Backend& backend, Gpt& gpt, OptimizerSettings settings)
    : backend_(backend), gpt_(gpt), settings_(settings) {
  RankMemory& memory = gpt.memory();
  const bool offload = gpt.shape().optimizer_offload;
  const auto find = [&](const char* name) { return offload ? memory.host(name) : memory.at(name); };
  if (types_of(gpt.shape().precision).master) master_ = find("master");
  m_ = find("m");
  v_ = find("v");
  if (offload && !backend.host_memory()) host_backend_ = make_cpu_backend(1);
  pieces_ = memory.at("stats.pieces");
  sum_ = memory.at("stats.sum");
  control_ = memory.at("stats.control");
  sent_ = backend.allocate_host(sizeof(Numbers), "a step's numbers");
  plan_segments();
  offload ? plan_windows() : attach_state();
  plan_pieces();
  count_padding();
}

Tensor Optimizer::state(const char* name) {
  if (host_backend_) backend_.synchronize();  // the last step's copies may still be in progress
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
    assign_host_values(state_backend(),
                       state("master").slice(s.shard_begin, s.shard_begin + s.count),
                       values + (s.flat_begin - begin));
  }
}

void Optimizer::plan_pieces() {
  const FlatLayout& layout = gpt_.layout();
  const RankComms comms = gpt_.comms();
  const bool sharded = gpt_.shape().zero >= 1;
  const int64_t parts = pieces_per_part(layout.dp);
  const int64_t mine = sharded ? parts / layout.dp : parts;
  const int64_t first = sharded ? mine * comms.dp->rank() : 0;
  for (const FlatUnit& unit : layout.units) {
    // A tied token table has a second copy on the last stage: only the first stage's is counted.
    if (unit.role == Role::tokens && comms.ends && !gpt_.shape().first_stage) continue;
    for (const FlatPart& part : unit.parts) {
      if (part.group == Group::tensor && comms.tp->rank() != 0) continue;  // counted once
      const Tensor grad = gpt_.gradients().owned(part);
      const int64_t size = grad.count() / mine;
      const int64_t row = part.index * parts + first;
      if (size == 0) continue;
      stat_pieces_.push_back(
          {pieces_.slice(3 * row, 3 * (row + mine)).view({mine, 3}), grad.slice(0, size * mine)});
    }
  }
}

void Optimizer::count_padding() {
  double counted[3] = {};
  for (const Piece& piece : stat_pieces_) counted[1] += static_cast<double>(piece.grad.count());
  const RankComms comms = gpt_.comms();
  backend_.copy_from_host(sum_, counted);
  if (gpt_.shape().zero >= 1) comms.dp->all_reduce(sum_);
  comms.tp->all_reduce(sum_);
  comms.pp->all_reduce(sum_);
  backend_.copy_to_host(counted, sum_);
  padding_ = counted[1] - static_cast<double>(parameter_count(gpt_.shape().model));
}

// Fills one row of statistics per piece. Pieces of other ranks stay zero, so that adding the rows
// of all data-parallel ranks is exact.
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
  auto* numbers = static_cast<Numbers*>(sent_.data());
  backend_.start_copy_to_host(Lane::compute, numbers->sums, sum_);
  backend_.start_copy_to_host(Lane::compute, numbers->control, control_);
  arrived_ = backend_.record(Lane::compute);
  const AdamWOptions options{static_cast<float>(lr), settings_.beta1,
                             settings_.beta2,        settings_.eps,
                             settings_.weight_decay, step,
                             settings_.seed,         0};
  if (windows_.empty()) {
    backend_.adamw(segments_, control_, options);
  } else {
    update_windows(options);
  }
  gpt_.weights().publish();
}

// The link to the host carries both directions at once: copies in are queued on the copy lane,
// copies out on the comm lane, which is idle here.
void Optimizer::update_windows(const AdamWOptions& options) {
  for (const Event& event : left_) backend_.wait(Lane::copy, event);  // results of the last step
  for (size_t w = 0; w < windows_.size(); ++w) {
    const Window& window = windows_[w];
    Event& left = left_[w % 2];
    backend_.wait(Lane::copy, left);
    for (const Window::Part& part : window.parts) {
      backend_.start_copy_from_host(Lane::copy, part.device, part.host.data());
    }
    backend_.wait(Lane::compute, backend_.record(Lane::copy));
    backend_.adamw(window.segments, control_, options);
    backend_.wait(Lane::comm, backend_.record(Lane::compute));
    for (const Window::Part& part : window.parts) {
      backend_.start_copy_to_host(Lane::comm, part.host.data(), part.device);
    }
    left = backend_.record(Lane::comm);
  }
}

StepResult Optimizer::result(double loss_scale) {
  backend_.wait_on_host(arrived_);
  const auto& [sums, control] = *static_cast<const Numbers*>(sent_.data());
  return {std::sqrt(sums[0]) / loss_scale, sums[1] - padding_, control[1] != 0};
}

void Optimizer::plan_segments() {
  const FlatLayout& layout = gpt_.layout();
  const bool sharded = gpt_.shape().zero >= 1;
  const int64_t dp = sharded ? layout.dp : 1;
  const int64_t rank = sharded ? gpt_.comms().dp->rank() : 0;
  for (const FlatUnit& unit : layout.units) {
    for (const FlatPart& part : unit.parts) {
      const FlatRange range = part.owned(dp, rank);
      const Tensor weight = gpt_.weights().owned(part), grad = gpt_.gradients().owned(part);
      const int64_t state = part.shard_begin(dp);
      for (const FlatSegment& segment : decay_segments(unit, range)) {
        const int64_t begin = segment.begin - range.begin, end = segment.end - range.begin;
        const Tensor w = weight.slice(begin, end);
        // fp32 weights are their own master; other types have one in the state, or none at all.
        const Tensor master = w.dtype() == DType::f32 ? w : Tensor();
        segments_.push_back({w,
                             master,
                             {},
                             {},
                             grad.slice(begin, end),
                             segment.decay,
                             static_cast<uint64_t>(segment.begin)});
        state_begin_.push_back(state + begin);
      }
    }
  }
}

void Optimizer::attach_state() {
  for (size_t i = 0; i < segments_.size(); ++i) {
    AdamWSegment& s = segments_[i];
    const int64_t begin = state_begin_[i], end = begin + s.weight.count();
    if (!master_.none()) s.master = master_.slice(begin, end);
    s.m = m_.slice(begin, end);
    s.v = v_.slice(begin, end);
  }
}

void Optimizer::plan_windows() {
  const int64_t size = offload_window(m_.count());
  for (int64_t begin = 0; begin < m_.count(); begin += size) {
    const int64_t end = std::min(begin + size, m_.count());
    const std::string prefix = fmt::format("window.{}.", windows_.size() % 2);
    Window& window = windows_.emplace_back();
    const auto device = [&](const char* name) { return gpt_.memory().at(prefix + name); };
    const auto add = [&](const char* name, Tensor host) {
      if (host.none()) return;
      window.parts.push_back({device(name).slice(0, end - begin), host.slice(begin, end)});
    };
    add("master", master_);
    add("m", m_);
    add("v", v_);
    for (size_t i = 0; i < segments_.size(); ++i) {
      const AdamWSegment& s = segments_[i];
      const int64_t state = state_begin_[i];
      const int64_t from = std::max(begin, state), to = std::min(end, state + s.weight.count());
      if (from >= to) continue;
      const auto inside = [&](Tensor t) { return t.slice(from - state, to - state); };
      const auto staged = [&](const char* name) {
        return device(name).slice(from - begin, to - begin);
      };
      AdamWSegment part = s;
      part.weight = inside(s.weight);
      part.grad = s.grad.slice(from - state, to - state);
      part.master =
          master_.none() ? (s.master.none() ? Tensor() : inside(s.master)) : staged("master");
      part.m = staged("m");
      part.v = staged("v");
      part.first_index += static_cast<uint64_t>(from - state);
      window.segments.push_back(part);
    }
  }
}

}  // namespace stretto
