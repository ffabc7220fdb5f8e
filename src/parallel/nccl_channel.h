// One NCCL communicator with a stream of its own: what it does overlaps with everything else.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_check.h"
#include "base/trace.h"
#include "parallel/nccl_library.h"

namespace stretto::nccl {

// Where the compute lane's waiting for a channel is counted and shown.
struct Waits {
  TraceLane lane;
  double* seconds;
};

// Events come from a ring; one whose slot was reused waits for later work, never for less.
class Channel {
 public:
  Channel(cuda::CudaBackend& gpu, const ncclUniqueId& id, int ranks, int rank, const Waits& waits);
  // While an error unwinds the stack the peers will not come, and nothing waits for them.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // The communicator is the caller's from now on.
  ncclComm_t release() { return std::exchange(comm_, nullptr); }

  // Runs `call` (with the communicator and the stream) after what the compute lane has queued so
  // far; returns the number of its event.
  template <typename Call>
  uint64_t run(const char* what, Call&& call) {
    begin(what);
    check(call(comm_, stream_), what, comm_);
    const uint64_t done = used_++;
    CUDA_CHECK(cudaEventRecord(event_at(done), stream_));
    return done;
  }
  void wait(uint64_t done);  // the compute lane waits, not the host
  bool done(uint64_t done);

 private:
  static constexpr size_t kEvents = 256;
  void begin(const char* what);
  cudaEvent_t event_at(uint64_t number) const { return events_[number % kEvents]; }

  cuda::CudaBackend& gpu_;
  Waits waits_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, kEvents> events_{};
  uint64_t used_ = 0;
  int exceptions_ = std::uncaught_exceptions();
};

// Aborts them all at the same time: within a machine a call may return only when all peers have
// made theirs, and one communicator's work may wait for another's. What the GPU has queued ends as
// soon as the calls have begun; they themselves are waited for two seconds at most.
void abort_all(const std::vector<ncclComm_t>& comms);

}  // namespace stretto::nccl
