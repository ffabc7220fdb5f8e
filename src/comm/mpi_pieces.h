// Large sums over MPI, in pieces: a few are on their way while one is added up, fresh in the cache,
// and scratch memory stays a few pieces large whatever is summed.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "comm/mpi_op.h"

namespace stretto::mpi {

// One per communicator: pieces of its sums start in the order of the calls, which is the same on
// every rank, so ranks that run at different speeds never wait for each other in a circle.
class PieceQueue final : public Advancing {
 public:
  // Starts one piece. Called in order of pieces, on the rank's own thread, inside any wait.
  using Start = std::function<std::unique_ptr<MpiOp>(int64_t piece)>;

  explicit PieceQueue(std::shared_ptr<Process> process) : process_(std::move(process)) {}
  ~PieceQueue() override { process_->drop(this); }
  PieceQueue(const PieceQueue&) = delete;
  PieceQueue& operator=(const PieceQueue&) = delete;

  RequestPtr add(int64_t pieces, Start start);
  void advance() override;

 private:
  struct Job {
    Start start;
    int64_t count = 0, started = 0, finished = 0;
  };
  struct Running {
    std::shared_ptr<Job> job;
    std::unique_ptr<MpiOp> op;
  };
  class Whole;  // what the caller holds

  std::shared_ptr<Process> process_;
  std::deque<std::shared_ptr<Job>> waiting_;  // with pieces that have not been started
  std::deque<Running> running_;
};

}  // namespace stretto::mpi
