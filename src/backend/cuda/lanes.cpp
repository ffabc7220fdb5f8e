#include "backend/cuda/lanes.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>

#include "backend/cuda/cuda_check.h"
#include "base/error.h"
#include "base/units.h"

namespace stretto::cuda {

Lanes::Lanes() {
  int least = 0, greatest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  // Communication first: its kernels are short and others wait for them.
  const std::array<int, 3> priority = {least, greatest, least};
  for (size_t i = 0; i < streams_.size(); ++i) {
    CUDA_CHECK(cudaStreamCreateWithPriority(&streams_[i], cudaStreamNonBlocking, priority[i]));
  }
  for (auto& ring : events_) {
    for (cudaEvent_t& event : ring) {
      CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
  }
}

Lanes::~Lanes() {
  if (!leave_memory()) {  // what workspaces have given to the driver's pool leaves it here
    for (cudaStream_t stream : streams_) cudaStreamSynchronize(stream);
  }
  for (auto& ring : events_) {
    for (cudaEvent_t event : ring) cudaEventDestroy(event);
  }
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
}

Event Lanes::record(Lane lane) {
  const auto which = static_cast<size_t>(lane);
  const uint64_t number = recorded_[which]++;
  CUDA_CHECK(cudaEventRecord(events_[which][number % kEvents], stream(lane)));
  return {1 + number * events_.size() + which};  // 0 is no event
}

cudaEvent_t Lanes::native(Event event) const {
  const uint64_t number = (event.id - 1) / events_.size();
  return events_[(event.id - 1) % events_.size()][number % kEvents];
}

void Lanes::wait(Lane lane, Event event) {
  if (event.id != 0) CUDA_CHECK(cudaStreamWaitEvent(stream(lane), native(event), 0));
}

void Lanes::wait_on_host(Event event) {
  if (event.id != 0) CUDA_CHECK(cudaEventSynchronize(native(event)));
}

void Lanes::synchronize() {
  for (cudaStream_t stream : streams_) CUDA_CHECK(cudaStreamSynchronize(stream));
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

namespace {

std::atomic<bool> g_several{false};

bool has_memory_pools() {  // some virtual GPUs have none
  int device = 0, has = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&has, cudaDevAttrMemoryPoolsSupported, device));
  return has != 0;
}

}  // namespace

void drive_several_gpus() { g_several = true; }

bool leave_memory() { return g_several && std::uncaught_exceptions() > 0; }

StreamMemory::StreamMemory(size_t bytes, cudaStream_t stream) {
  const bool in_order = g_several && has_memory_pools();
  const cudaError_t status =
      in_order ? cudaMallocAsync(&data_, bytes, stream) : cudaMalloc(&data_, bytes);
  if (in_order) stream_ = stream;
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the refusal must not surface again at the next launch
    data_ = nullptr;
    return;
  }
  CUDA_CHECK(status);
}

StreamMemory::~StreamMemory() {
  if (data_ == nullptr || leave_memory()) return;
  stream_ == nullptr ? cudaFree(data_) : cudaFreeAsync(data_, stream_);
}

StreamMemory& StreamMemory::operator=(StreamMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(stream_, other.stream_);
  return *this;
}

void* Workspace::reserve(size_t bytes, cudaStream_t stream) {
  if (bytes <= bytes_) return memory_.data();
  STRETTO_CHECK(!is_capturing(stream), "workspace '{}' would grow to {} inside a captured graph",
                label_, format_bytes(static_cast<double>(bytes)));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  memory_ = {};
  bytes_ = 0;
  CUDA_CHECK(cudaStreamSynchronize(stream));  // a pool gives back what is free
  memory_ = StreamMemory(bytes, stream);
  if (memory_.data() == nullptr) {
    throw Error(ExitCode::out_of_memory,
                fmt::format("the GPU has no {} left for its workspace '{}'",
                            format_bytes(static_cast<double>(bytes)), label_),
                "use a smaller micro_batch or activation_checkpointing; other programs on the GPU "
                "take memory too (nvidia-smi)");
  }
  bytes_ = bytes;
  ++growths_;
  return memory_.data();
}

Staging::Staging() {
  CUDA_CHECK(cudaMallocHost(reinterpret_cast<void**>(&pinned_), kSlots * kSlotBytes));
  for (cudaEvent_t& event : free_) {
    CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
}

Staging::~Staging() {
  for (cudaEvent_t event : free_) cudaEventDestroy(event);
  if (!leave_memory()) cudaFreeHost(pinned_);
}

void Staging::upload(void* device, const void* host, size_t bytes, cudaStream_t stream) {
  for (size_t at = 0; at < bytes; at += kSlotBytes) {
    const size_t slot = next_++ % kSlots, part = std::min(kSlotBytes, bytes - at);
    CUDA_CHECK(cudaEventSynchronize(free_[slot]));
    char* pinned = pinned_ + slot * kSlotBytes;
    std::memcpy(pinned, static_cast<const char*>(host) + at, part);
    CUDA_CHECK(cudaMemcpyAsync(static_cast<char*>(device) + at, pinned, part,
                               cudaMemcpyHostToDevice, stream));
    CUDA_CHECK(cudaEventRecord(free_[slot], stream));
  }
}

const void* DeviceTable::upload(const void* data, size_t bytes, Staging& staging,
                                cudaStream_t stream) {
  void* device = memory_.reserve(bytes, stream);
  const auto* begin = static_cast<const char*>(data);
  if (content_.size() == bytes && std::memcmp(content_.data(), begin, bytes) == 0) return device;
  staging.upload(device, data, bytes, stream);
  content_.assign(begin, begin + bytes);
  return device;
}

}  // namespace stretto::cuda
