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
    std::vector<bool> next_input_comes;  // of this rank's tasks
  };
  const Plan& plan(int micro_batches);
  // On return everything that the task reads is there.
  void begin(const Schedule& schedule, const Task& task, const MicroBatch& mb, const Loader& load);
  void receive(Tensor to, const Transfer& in);
  // Starts the receive of `next`'s input where there is room for it while `task` runs.
  void receive_ahead(const Schedule& schedule, const Task& task, const Task& next,
                     const std::vector<Share>& shares);
  // Whether a step has had micro-batches of these sizes. The first one meets new products: a GPU
  // times them and loads kernels, which waits for all that is queued there. If that is a message,
  // its other end may wait in the same way; so that step goes one_by_one().
  bool has_run_before(const std::vector<Share>& shares);
  // Computes, and starts to send the result.
  void run(const Schedule& schedule, const Task& task, const MicroBatch& mb, bool train);
  // Runs the device work of a task, or replays it where this rank talks to nobody meanwhile.
  template <typename Work>
  void compute(const Task& task, const MicroBatch& mb, int which, const Work& work) {
    if (!alone_) return work();
    replay(task, mb, which, work);
  }
  void replay(const Task& task, const MicroBatch& mb, int which, const std::function<void()>& work);
  MicroBatch micro_batch(const Task& task, const std::vector<Share>& shares) const;
  RequestPtr& output_request(int chunk, int64_t slot);
  void finish_sends();
  // Runs `work` as a span of the trace, with arrows from its input and to its output.
  template <typename Work>
  void traced(const Task& task, const Transfer& in, const Transfer& out, Work&& work);

  Gpt& gpt_;
  Comm& pp_;
  PipelineSchedule kind_;
  int chunks_;
  bool alone_ = false;  // nothing is sent or received inside a task
  // Where the gradients stood after a task that can be replayed.
  std::map<uint64_t, std::vector<Gradients::UnitState>> progress_after_;
  std::map<int, Plan> plans_;  // by number of micro-batches
  std::set<std::vector<int64_t>> run_before_;
  std::vector<int64_t> counts_;  // sequences of the micro-batches in work
  std::vector<std::vector<RequestPtr>>
      outputs_;              // [chunk][slot]: stream on its way to the next stage
  RequestPtr gradients_[2];  // gradient streams on their way back
  int gradient_ = 0;         // the gradient stream of the next backward pass
  RequestPtr ahead_;         // the next task's input on its way
  bool ahead_started_ = false;
  bool ahead_aside_ = false;  // it goes to Gpt::received()
  size_t micro_batches_ = 0;  // of the step in work
};

}  // namespace stretto
