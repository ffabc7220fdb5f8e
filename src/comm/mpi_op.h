// Inside of the MPI transport: one started operation, and what all communicators of a process
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

// Scratch that is kept for the next call: fresh pages would cost more than the sum itself.
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

// Something that has to be moved along for the sake of peers.
//
// A peer may wait for a stage or a piece that this rank has to start, so whoever waits for any
// operation moves all of these along; waiting in MPI itself would deadlock.
class Advancing {
 public:
  virtual ~Advancing() = default;
  virtual void advance() = 0;  // never blocks
};

// One per process. Ends MPI when the last communicator is gone.
struct Process {
  Process();
  ~Process();

  bool any_thread_may_call = false;  // MPI_THREAD_MULTIPLE
  int exceptions;                    // in flight when MPI was started
  ScratchPool scratch;
  std::vector<Advancing*> stages;  // what peers wait for

  void poll();  // moves all of them along
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
  std::vector<Advancing*> polled_;  // a copy, because advancing changes the list
};

// MPI requests, and what to do when all have finished: nothing, add up, or the next stage.
class MpiOp final : public Request, public Advancing {
 public:
  using Then = std::function<void(MpiOp&)>;

  explicit MpiOp(std::shared_ptr<Process> process) : process_(std::move(process)) {}
  // Not finished: the rank fails, and its process is about to end. MPI may still write to the
  // scratch, which is therefore leaked.
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
  void next_stage();  // all pending requests have finished
  void finish();

  std::shared_ptr<Process> process_;
  std::vector<MPI_Request> pending_;
  Then then_;
  ScratchPool::Scratch scratch_;
  bool listed_ = false;
  bool finished_ = false;
};

}  // namespace stretto::mpi
