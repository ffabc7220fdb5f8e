// Internals of the MPI transport: one started operation, and what all communicators of a process
// share.
#pragma once

#include <mpi.h>
#include <sched.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/comm.h"

namespace stretto::mpi {

void check(int code, const char* what);  // throws Error(peer_lost) with MPI's own text

// Scratch memory, kept from call to call: the page faults of fresh memory would cost more than the
// sum itself.
class ScratchPool {
 public:
  struct Scratch {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;
  };
  Scratch take(size_t bytes);
  void give(Scratch scratch);

 private:
  std::vector<Scratch> free_;
};

// Something whose progress peers may depend on.
//
// A peer may be waiting for a stage or a piece that this rank has yet to start. So a rank that
// waits for any operation advances all of these; if it waited inside MPI instead, both could
// deadlock.
class Advancing {
 public:
  virtual ~Advancing() = default;
  virtual void advance() = 0;  // never blocks
};

// One object per process. Finalises MPI when the last communicator is gone.
struct Process {
  Process();
  ~Process();

  bool any_thread_may_call = false;  // MPI_THREAD_MULTIPLE
  int exceptions;                    // in flight when MPI was started
  ScratchPool scratch;
  std::vector<Advancing*> stages;  // peers may wait for these

  void poll();  // advances all of them
  void drop(Advancing* one) { std::erase(stages, one); }
  template <typename Done>
  void poll_until(Done done) {
    constexpr int kPolls = 200;  // then let another rank have the core
    for (int polls = 1; !done(); ++polls) {
      poll();
      if (polls % kPolls == 0) sched_yield();
    }
  }

 private:
  std::vector<Advancing*> polled_;  // copy of `stages`, which changes during poll()
};

// A set of MPI requests, and what to do when all of them have completed: nothing, add up, or start
// the next stage.
class MpiOp final : public Request, public Advancing {
 public:
  using Then = std::function<void(MpiOp&)>;

  explicit MpiOp(std::shared_ptr<Process> process) : process_(std::move(process)) {}
  // An operation that is destroyed unfinished means that the rank fails and its process is about to
  // end. MPI may still write to the scratch memory, so that is leaked.
  ~MpiOp() override;

  MPI_Request* add() { return &pending_.emplace_back(MPI_REQUEST_NULL); }
  void then(Then next) { then_ = std::move(next); }
  void peers_need_next_stage();
  char* take_scratch(size_t bytes);

  void wait() override;
  bool done() override;
  void advance() override;
  bool finished() const { return finished_; }

 private:
  void next_stage();  // when all pending requests have completed
  void finish();

  std::shared_ptr<Process> process_;
  std::vector<MPI_Request> pending_;
  Then then_;
  ScratchPool::Scratch scratch_;
  bool listed_ = false;
  bool finished_ = false;
};

}  // namespace stretto::mpi
