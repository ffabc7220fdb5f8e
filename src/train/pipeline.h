// Executes a pipeline schedule on one rank: receives what a task needs, runs it on the model,
// starts sending what it made. Before a task computes, the receive of the one after it is started,
// so that transfers overlap with compute on both sides. With one stage this is a plain loop over
// micro-batches.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "model/gpt.h"
#include "parallel/schedule.h"
#include "train/batch_plan.h"

namespace stretto {

class Pipeline {
 public:
  // Puts the tokens and targets of a micro-batch into place (Gpt::set_batch).
  using Loader = std::function<void(size_t chunk, const MicroBatch& mb)>;

  Pipeline(Gpt& gpt, PipelineSchedule kind, int chunks);

  // Forward and backward of all micro-batches; shares[i].count sequences in the i-th.
  void train(const std::vector<Share>& shares, const Loader& load);
  // Forward only, for evaluation.
  void evaluate(const std::vector<Share>& shares, const Loader& load);

 private:
  struct Plan {
    Schedule schedule;
    std::vector<bool> next_input_comes;  // by task: may the next one's input be awaited early?
  };
  const Plan& plan(int micro_batches);
  // Returns when everything that the task reads is in place.
  void begin(const Schedule& schedule, const Task& task, const MicroBatch& mb, const Loader& load);
  void receive(Tensor to, const Transfer& in);
  // Starts the receive of `next`'s input where there is room for it while `task` runs.
  void receive_ahead(const Schedule& schedule, const Task& task, const Task& next,
                     const std::vector<Share>& shares);
  // Whether an earlier step had micro-batches of exactly these sizes. New sizes mean new matrix
  // products, for which a GPU times algorithms and loads kernels, and that waits for all work
  // queued on it. If a message is among that work, its peer may be waiting in the same way: a
  // deadlock. So a step with new sizes goes one_by_one().
  bool has_run_before(const std::vector<Share>& shares);
  // Computes, and starts to send the result. `train` false: forward only, for evaluation.
  void run(const Schedule& schedule, const Task& task, const MicroBatch& mb, bool train);
  // Runs the device work of a task; where nothing is sent or received meanwhile, may replay a
  // recording.
  template <typename Work>
  void compute(const Task& task, const MicroBatch& mb, int which, const Work& work) {
    if (!alone_) return work();
    replay(task, mb, which, work);
  }
  void replay(const Task& task, const MicroBatch& mb, int which, const std::function<void()>& work);
  MicroBatch micro_batch(const Task& task, const std::vector<Share>& shares) const;
  RequestPtr& output_request(int chunk, int64_t slot);
  void finish_sends();
  // Runs `work` and records it as a span of the trace, with arrows for its input and its output.
  template <typename Work>
  void traced(const Task& task, const Transfer& in, const Transfer& out, Work&& work);

  Gpt& gpt_;
  Comm& pp_;
  PipelineSchedule kind_;
  int chunks_;
  bool alone_ = false;  // no task sends or receives anything, so tasks can be replayed
  // By task_key(): the progress of the gradients after the task, to be restored after a replay.
  std::map<uint64_t, std::vector<Gradients::UnitState>> progress_after_;
  std::map<int, Plan> plans_;  // by the number of micro-batches
  std::set<std::vector<int64_t>> run_before_;
  std::vector<int64_t> counts_;                   // scratch of has_run_before()
  std::vector<std::vector<RequestPtr>> outputs_;  // [chunk][slot]: sends of output streams
  RequestPtr gradients_[2];                       // sends of the two gradient streams
  int gradient_ = 0;                              // which of them the next backward pass uses
  RequestPtr ahead_;                              // receive of the next task's input
  bool ahead_started_ = false;
  bool ahead_aside_ = false;  // it goes to Gpt::received(), not to its slot
  size_t micro_batches_ = 0;  // in the current step
};

}  // namespace stretto
