#include "comm/mpi_pieces.h"

#include <algorithm>

namespace stretto::mpi {
namespace {

constexpr size_t kWindow = 4;  // pieces that run at once

}  // namespace

class PieceQueue::Whole final : public Request {
 public:
  Whole(PieceQueue& queue, std::shared_ptr<Job> job) : queue_(queue), job_(std::move(job)) {}

  ~Whole() override {  // destroyed unfinished: the rank fails and starts nothing more
    if (job_->finished < job_->count) std::erase(queue_.waiting_, job_);
  }
  void wait() override {
    queue_.process_->poll_until([&] { return job_->finished == job_->count; });
  }
  bool done() override {
    if (job_->finished < job_->count) queue_.process_->poll();
    return job_->finished == job_->count;
  }

 private:
  PieceQueue& queue_;
  std::shared_ptr<Job> job_;
};

RequestPtr PieceQueue::add(int64_t pieces, Start start) {
  auto job = std::make_shared<Job>();
  job->start = std::move(start);
  job->count = pieces;
  if (waiting_.empty() && running_.empty()) process_->stages.push_back(this);
  waiting_.push_back(job);
  advance();
  return std::make_unique<Whole>(*this, std::move(job));
}

void PieceQueue::advance() {
  for (Running& one : running_) one.op->advance();
  while (!running_.empty() && running_.front().op->finished()) {
    ++running_.front().job->finished;
    running_.pop_front();
  }
  while (running_.size() < kWindow && !waiting_.empty()) {
    const std::shared_ptr<Job> job = waiting_.front();
    running_.push_back({job, job->start(job->started)});
    if (++job->started == job->count) waiting_.pop_front();
  }
  if (waiting_.empty() && running_.empty()) process_->drop(this);
}

}  // namespace stretto::mpi
