// Streams, events, workspaces: the CUDA objects a backend owns, each released by its owner.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace stretto::cuda {

// One stream per lane, and a ring of events for each, so recording never allocates inside a step.
// An Event whose slot was reused waits for later work of its lane than asked: never for less.
class Lanes {
 public:
  Lanes();
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  cudaStream_t stream(Lane lane) const { return streams_[static_cast<size_t>(lane)]; }
  Event record(Lane lane);
  void wait(Lane lane, Event event);
  void wait_on_host(Event event);
  void synchronize();

 private:
  cudaEvent_t native(Event event) const;

  static constexpr size_t kEvents = 512;
  std::array<cudaStream_t, 3> streams_{};
  std::array<std::array<cudaEvent_t, kEvents>, 3> events_{};
  std::array<uint64_t, 3> recorded_{};
};

bool is_capturing(cudaStream_t stream);

// Other threads of this process drive other GPUs (CudaOptions::one_of_several). cudaFree then waits
// for all GPUs that can reach the memory, and with them for other ranks, which may wait for us.
void drive_several_gpus();
// Whether memory of the device, and pinned memory, which all devices see, is left to the end of the
// process: an error is on its way out of one of several ranks, and nobody would hear of it before
// cudaFree returns.
bool leave_memory();

// Device memory for work on one stream. Where a process drives several GPUs it comes and goes in
// the order of that stream.
class StreamMemory {
 public:
  StreamMemory() = default;
  // Check `data()`: null, with no error left behind, where there is not enough.
  StreamMemory(size_t bytes, cudaStream_t stream);
  ~StreamMemory();
  StreamMemory(StreamMemory&& other) noexcept { *this = std::move(other); }
  StreamMemory& operator=(StreamMemory&& other) noexcept;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  cudaStream_t stream_ = nullptr;  // null: from cudaMalloc
};

// Device memory that only grows. Growth waits for the stream and is refused during capture; what
// was recorded before it has the old address.
class Workspace {
 public:
  explicit Workspace(const char* label) : label_(label) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* reserve(size_t bytes, cudaStream_t stream);
  size_t bytes() const { return bytes_; }
  uint64_t growths() const { return growths_; }

 private:
  const char* label_;
  StreamMemory memory_;
  size_t bytes_ = 0;
  uint64_t growths_ = 0;
};

// Pinned slots through which host buffers travel: the caller's memory may be reused as soon as it
// has been copied into them. What fits into the slots (tokens, scales) waits for nothing, more for
// the slot that is free next.
class Staging {
 public:
  Staging();
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void upload(void* device, const void* host, size_t bytes, cudaStream_t stream);

 private:
  static constexpr size_t kSlotBytes = size_t{1} << 20;
  static constexpr size_t kSlots = 8;
  char* pinned_ = nullptr;
  std::array<cudaEvent_t, kSlots> free_{};
  size_t next_ = 0;
};

// A small table in device memory, sent again only when it has changed.
class DeviceTable {
 public:
  const void* upload(const void* data, size_t bytes, Staging& staging, cudaStream_t stream);

 private:
  Workspace memory_{"table"};
  std::vector<char> content_;
};

}  // namespace stretto::cuda
