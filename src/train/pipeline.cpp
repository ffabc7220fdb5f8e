#include "train/pipeline.h"

#include <optional>
#include <string_view>

#include "backend/task_slice.h"
#include "base/trace.h"

namespace stretto {
namespace {

void finish(RequestPtr& request) {
  if (request) request->wait();
  request.reset();
}

// A key that is equal for two tasks exactly if they queue the same operators on the same tensors; 0
// if a field does not fit into its bits.
uint64_t task_key(const Task& task, const MicroBatch& mb, size_t micro_batches, int which) {
  const uint64_t fields[][2] = {
      {static_cast<uint64_t>(task.kind) + 1, 3}, {static_cast<uint64_t>(which), 1},
      {static_cast<uint64_t>(task.chunk), 6},    {static_cast<uint64_t>(mb.slot), 8},
      {static_cast<uint64_t>(mb.index), 13},     {micro_batches, 13},
      {static_cast<uint64_t>(mb.batch), 20}};
  uint64_t key = 0;
  for (const auto& [value, bits] : fields) {
    if (value >> bits != 0) return 0;
    key = (key << bits) | value;
  }
  return key;
}

}  // namespace

Pipeline::Pipeline(Gpt& gpt, PipelineSchedule kind, int chunks)
    : gpt_(gpt), pp_(*gpt.comms().pp), kind_(kind), chunks_(chunks) {
  for (const int64_t slots : gpt.shape().in_flight) {
    outputs_.emplace_back(static_cast<size_t>(slots));
  }
  const RankComms comms = gpt.comms();
  // NCCL has streams of its own, which a recording would have to join. That holds in a world of
  // one, too.
  const bool nccl = std::string_view(pp_.transport()) == "nccl";
  alone_ = !nccl && !gpt.backend().host_memory() && comms.dp->size() == 1 &&
           comms.tp->size() == 1 && pp_.size() == 1 && comms.replica == nullptr &&
           gpt.shape().zero < 3 && !gpt.shape().offloads();
}

void Pipeline::replay(const Task& task, const MicroBatch& mb, int which,
                      const std::function<void()>& work) {
  const uint64_t key = task_key(task, mb, micro_batches_, which);
  if (key == 0) return work();
  Gradients& gradients = gpt_.gradients();
  const std::vector<Gradients::UnitState> before = gradients.progress();
  const bool called = gpt_.backend().repeat(key, [&] {
    gradients.set_progress(before);  // recording may fail half-way and start again
    work();
  });
  if (called) {
    progress_after_[key] = gradients.progress();
  } else {
    gradients.set_progress(progress_after_[key]);
  }
}

const Pipeline::Plan& Pipeline::plan(int micro_batches) {
  const auto it = plans_.find(micro_batches);
  if (it != plans_.end()) return it->second;
  Schedule schedule = make_schedule(kind_, pp_.size(), micro_batches, chunks_);
  std::vector<bool> come = next_input_comes(schedule, pp_.rank());
  for (int rank = 0; rank < pp_.size(); ++rank) {  // tasks of others may be many
    if (rank != pp_.rank()) schedule.ranks[static_cast<size_t>(rank)] = {};
  }
  return plans_[micro_batches] = {std::move(schedule), std::move(come)};
}

MicroBatch Pipeline::micro_batch(const Task& task, const std::vector<Share>& shares) const {
  const auto chunk = static_cast<size_t>(task.chunk);
  return {task.micro_batch % gpt_.shape().in_flight[chunk], task.micro_batch,
          shares[static_cast<size_t>(task.micro_batch)].count};
}

RequestPtr& Pipeline::output_request(int chunk, int64_t slot) {
  return outputs_[static_cast<size_t>(chunk)][static_cast<size_t>(slot)];
}

template <typename Work>
void Pipeline::traced(const Task& task, const Transfer& in, const Transfer& out, Work&& work) {
  TraceSlice slice;
  slice.span.name = name_of(task.kind);
  slice.span.number = task.micro_batch;
  slice.span.chunk = task.chunk;
  slice.message = task.kind == TaskKind::forward ? "activations" : "gradient";
  if (const TraceBuffer* trace = current_trace(); trace != nullptr) {
    const int here = pp_.rank();
    if (in.peer >= 0) slice.in = flow_id(trace->scope(), in.peer, here, in.tag);
    if (out.peer >= 0) slice.out = flow_id(trace->scope(), here, out.peer, out.tag);
  }
  const TaskSlice shown(gpt_.backend(), slice);
  work();
}

void Pipeline::receive(Tensor to, const Transfer& in) {
  if (ahead_started_) {
    finish(ahead_);
    ahead_started_ = false;
  } else {
    pp_.recv(to, in.peer, in.tag);
  }
}

void Pipeline::begin(const Schedule& schedule, const Task& task, const MicroBatch& mb,
                     const Loader& load) {
  const auto chunk = static_cast<size_t>(task.chunk);
  const Transfer in = input_of(schedule, pp_.rank(), task);
  if (task.kind == TaskKind::forward) {
    finish(output_request(task.chunk, mb.slot));  // the buffer is about to be overwritten
    if (gpt_.begins_model(chunk) || gpt_.ends_model(chunk)) load(chunk, mb);
    if (in.peer >= 0) receive(gpt_.input(chunk, mb), in);
    if (ahead_aside_) gpt_.take_received(chunk, mb);
    ahead_aside_ = false;
  } else if (task.kind != TaskKind::backward_weight) {
    finish(gradients_[gradient_]);
    if (in.peer >= 0) receive(gpt_.dstream(gradient_, mb), in);
  }
}

void Pipeline::receive_ahead(const Schedule& schedule, const Task& task, const Task& next,
                             const std::vector<Share>& shares) {
  const Transfer in = input_of(schedule, pp_.rank(), next);
  if (in.peer < 0) return;
  const MicroBatch mb = micro_batch(next, shares);
  Tensor to;
  if (next.kind == TaskKind::forward) {
    // The task at hand may be the backward pass that still reads this slot's input. With offload
    // all slots share the same memory.
    const bool same_slot = task.kind != TaskKind::forward && task.chunk == next.chunk &&
                           micro_batch(task, shares).slot == mb.slot;
    ahead_aside_ = same_slot || gpt_.shape().offloads();
    to = ahead_aside_ ? gpt_.received(mb) : gpt_.input(static_cast<size_t>(next.chunk), mb);
  } else {
    const bool takes_one = task.kind == TaskKind::backward || task.kind == TaskKind::backward_input;
    const int which = takes_one ? 1 - gradient_ : gradient_;
    // The last send from this buffer is not done. Waiting for it here could deadlock two stages
    // that wait for each other.
    if (gradients_[which] && !gradients_[which]->done()) return;
    finish(gradients_[which]);
    to = gpt_.dstream(which, mb);
  }
  ahead_ = pp_.start_recv(to, in.peer, in.tag);
  ahead_started_ = true;
}

void Pipeline::run(const Schedule& schedule, const Task& task, const MicroBatch& mb, bool train) {
  const auto chunk = static_cast<size_t>(task.chunk);
  const Transfer in = input_of(schedule, pp_.rank(), task);
  const Transfer out = output_of(schedule, pp_.rank(), task);
  switch (task.kind) {
    case TaskKind::forward:
      traced(task, in, out, [&] {
        if (train) {
          compute(task, mb, 0, [&] { gpt_.forward(chunk, mb, true); });
        } else {
          gpt_.forward(chunk, mb, false);
        }
      });
      if (out.peer < 0) break;
      output_request(task.chunk, mb.slot) =
          pp_.start_send(gpt_.output(chunk, mb), out.peer, out.tag);
      break;
    case TaskKind::backward:
    case TaskKind::backward_input: {
      const int which = gradient_;
      gradient_ = 1 - which;
      const Tensor dstream = gpt_.dstream(which, mb);
      traced(task, in, out, [&] {
        compute(task, mb, which,
                [&] { gpt_.backward(chunk, mb, dstream, task.kind == TaskKind::backward_input); });
      });
      if (out.peer >= 0) gradients_[which] = pp_.start_send(dstream, out.peer, out.tag);
      break;
    }
    case TaskKind::backward_weight:
      traced(task, in, out,
             [&] { compute(task, mb, 0, [&] { gpt_.backward_weights(chunk, mb); }); });
      break;
  }
}

bool Pipeline::has_run_before(const std::vector<Share>& shares) {
  counts_.clear();
  for (const Share& share : shares) counts_.push_back(share.count);
  return !run_before_.insert(counts_).second;
}

void Pipeline::train(const std::vector<Share>& shares, const Loader& load) {
  micro_batches_ = shares.size();
  gradient_ = 0;  // whatever the last step ended with, so that recordings of it fit
  const Plan& usual = plan(static_cast<int>(shares.size()));
  std::optional<Schedule> calm;
  if (!has_run_before(shares) && pp_.size() > 1) calm = one_by_one(usual.schedule);
  const Schedule& schedule = calm ? *calm : usual.schedule;
  const std::vector<Task>& tasks = schedule.ranks[static_cast<size_t>(pp_.rank())];
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Task& task = tasks[i];
    const MicroBatch mb = micro_batch(task, shares);
    begin(schedule, task, mb, load);
    if (!calm && i + 1 < tasks.size() && usual.next_input_comes[i]) {
      receive_ahead(schedule, task, tasks[i + 1], shares);
    }
    run(schedule, task, mb, true);
  }
  finish_sends();
}

// Each micro-batch goes through the chunks in model order.
void Pipeline::evaluate(const std::vector<Share>& shares, const Loader& load) {
  const Schedule& plan = this->plan(static_cast<int>(shares.size())).schedule;
  for (int i = 0; i < static_cast<int>(shares.size()); ++i) {
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      const Task task{TaskKind::forward, i, chunk};
      const MicroBatch mb = micro_batch(task, shares);
      begin(plan, task, mb, load);
      run(plan, task, mb, false);
    }
  }
  finish_sends();
}

void Pipeline::finish_sends() {
  for (auto& slots : outputs_) {
    for (RequestPtr& request : slots) finish(request);
  }
  for (RequestPtr& request : gradients_) finish(request);
}

}  // namespace stretto
