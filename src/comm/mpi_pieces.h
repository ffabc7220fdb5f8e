// Large sums over MPI, taken in pieces: while one piece is added up, still fresh in the cache, a
// few others are being sent, and scratch memory never exceeds a few pieces.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "comm/mpi_op.h"

namespace stretto::mpi {

// One queue per communicator. Pieces start in the order of the calls, which is the same on every
// rank, so ranks of different speed cannot end up waiting for each other in a circle.
class PieceQueue final : public Advancing {
 public:
  // Starts one piece. Called in the order of pieces, on the rank's own thread, while it waits for
  // any operation.
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
  class Whole;  // the request that the caller holds

  std::shared_ptr<Process> process_;
  std::deque<std::shared_ptr<Job>> waiting_;  // jobs with pieces that have not been started
  std::deque<Running> running_;
};

}  // namespace stretto::mpi
