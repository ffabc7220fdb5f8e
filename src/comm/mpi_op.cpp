#include "comm/mpi_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace stretto::mpi {

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ExitCode::peer_lost, fmt::format("MPI {} failed: {}", what, text),
              "a peer may have ended; see its messages, then start the job again");
}

ScratchPool::Scratch ScratchPool::take(size_t bytes) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    // Much larger buffers are left for larger calls.
    if (it->size < bytes || it->size / 4 > bytes) continue;
    Scratch found = std::move(*it);
    free_.erase(it);
    return found;
  }
  return {std::unique_ptr<char[]>(new char[bytes]), bytes};
}

void ScratchPool::give(Scratch scratch) {
  constexpr size_t kKept = 16;
  if (free_.size() == kKept) free_.erase(free_.begin());
  free_.push_back(std::move(scratch));
}

Process::Process() : exceptions(std::uncaught_exceptions()) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) {
    throw Error(ExitCode::internal, "MPI was ended and cannot start again in one process");
  }
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "initialisation");
  if (provided < MPI_THREAD_FUNNELED) {
    throw Error(ExitCode::os_error, "this MPI library cannot be used beside other threads",
                "use an MPI built with thread support (MPI_THREAD_FUNNELED at least)");
  }
  any_thread_may_call = provided == MPI_THREAD_MULTIPLE;
}

void Process::poll() {
  polled_ = stages;
  for (Advancing* one : polled_) one->advance();
}

Process::~Process() {
  if (std::uncaught_exceptions() == exceptions) MPI_Finalize();
}

MpiOp::~MpiOp() {
  if (listed_) process_->drop(this);
  if (!finished_) scratch_.bytes.release();  // NOLINT(bugprone-unused-return-value): see header
}

void MpiOp::peers_need_next_stage() {
  process_->stages.push_back(this);
  listed_ = true;
}

char* MpiOp::take_scratch(size_t bytes) {
  scratch_ = process_->scratch.take(bytes);
  return scratch_.bytes.get();
}

void MpiOp::finish() {
  finished_ = true;
  if (scratch_.bytes) process_->scratch.give(std::move(scratch_));
}

void MpiOp::next_stage() {
  pending_.clear();
  if (!then_) return finish();
  const Then next = std::move(then_);
  then_ = nullptr;
  if (listed_) {
    process_->drop(this);
    listed_ = false;
  }
  next(*this);
  if (pending_.empty() && !then_) finish();
}

void MpiOp::advance() {
  if (finished_) return;
  int all = 0;
  check(MPI_Testall(static_cast<int>(pending_.size()), pending_.data(), &all, MPI_STATUSES_IGNORE),
        "test");
  if (all != 0) next_stage();
}

bool MpiOp::done() {
  if (!finished_) process_->poll();
  advance();
  return finished_;
}

void MpiOp::wait() {
  while (!finished_ && process_->stages.empty()) {
    check(MPI_Waitall(static_cast<int>(pending_.size()), pending_.data(), MPI_STATUSES_IGNORE),
          "wait");
    next_stage();
  }
  if (!finished_) process_->poll_until([this] { return advance(), finished_; });
}

}  // namespace stretto::mpi
