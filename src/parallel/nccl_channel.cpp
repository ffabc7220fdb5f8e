#include "parallel/nccl_channel.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace stretto::nccl {

Channel::Channel(cuda::CudaBackend& gpu, const ncclUniqueId& id, int ranks, int rank,
                 const Waits& waits)
    : gpu_(gpu), waits_(waits) {
  gpu_.make_current();
  check(library().init_rank(&comm_, ranks, id, rank), "ncclCommInitRank");
  int least = 0, greatest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
  for (cudaEvent_t& event : events_) {
    CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
}

Channel::~Channel() {
  const bool lost = std::uncaught_exceptions() > exceptions_;
  if (comm_ != nullptr && lost) abort_all({comm_});
  if (comm_ != nullptr && !lost) library().destroy(comm_);
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  cudaStreamDestroy(stream_);
}

void Channel::begin(const char* what) {
  gpu_.make_current();
  ncclResult_t state = ncclSuccess;
  check(library().async_error(comm_, &state), what, comm_);
  check(state, what, comm_);
  cudaEvent_t ready = event_at(used_++);
  CUDA_CHECK(cudaEventRecord(ready, gpu_.stream()));
  CUDA_CHECK(cudaStreamWaitEvent(stream_, ready, 0));
}

void Channel::wait(uint64_t done) {
  gpu_.make_current();
  gpu_.begin_wait(waits_.lane, waits_.seconds);
  const cudaError_t status = cudaStreamWaitEvent(gpu_.stream(), event_at(done), 0);
  gpu_.end_wait();
  CUDA_CHECK(status);
}

bool Channel::done(uint64_t done) {
  const cudaError_t state = cudaEventQuery(event_at(done));
  if (state == cudaErrorNotReady) return false;
  CUDA_CHECK(state);
  return true;
}

void abort_all(const std::vector<ncclComm_t>& comms) {
  if (comms.empty()) return;  // a run on CPUs, where not even the driver is to be asked
  struct Leaving {
    std::mutex mutex;
    std::condition_variable one_less;
    size_t left = 0;
  };
  const auto leaving = std::make_shared<Leaving>();
  int device = 0;
  cudaGetDevice(&device);
  const auto leave = [leaving, device](ncclComm_t comm) {
    cudaSetDevice(device);  // a thread begins with the first one, and would start the driver there
    library().abort(comm);
    const std::lock_guard lock(leaving->mutex);
    --leaving->left;
    leaving->one_less.notify_all();
  };
  for (ncclComm_t comm : comms) {
    {
      const std::lock_guard lock(leaving->mutex);
      ++leaving->left;
    }
    try {
      std::thread(leave, comm).detach();
    } catch (...) {  // no thread: another error is on its way, and is the one to tell of
      leave(comm);
    }
  }
  std::unique_lock lock(leaving->mutex);
  leaving->one_less.wait_for(lock, std::chrono::seconds(2), [&] { return leaving->left == 0; });
}

}  // namespace stretto::nccl
