#include "backend/cuda/graphs.h"

#include "backend/cuda/cuda_check.h"
#include "base/log.h"

namespace stretto::cuda {

Graphs::~Graphs() { forget(); }

void Graphs::forget() {
  for (auto& [key, recording] : recordings_) {
    if (recording.graph != nullptr) cudaGraphExecDestroy(recording.graph);
    recording.graph = nullptr;
  }
}

bool Graphs::run(uint64_t key, const std::function<void()>& work, cudaStream_t stream,
                 Profile& profile) {
  if (recordings_.size() >= kMost && recordings_.find(key) == recordings_.end()) {
    if (!full_) {
      spdlog::info(
          "cuda: {} micro-batches and passes are replayed as graphs; the kernels of others are "
          "launched one by one",
          kMost);
    }
    full_ = true;
    work();
    return true;
  }
  Recording& recording = recordings_[key];
  bool called = false;
  if (recording.graph == nullptr) {
    if (++recording.calls < 2 || recording.refused) {
      work();
      return true;
    }
    called = true;
    if (!record(recording, work, stream, profile)) {
      recording.refused = true;
      work();
      return true;
    }
  } else {
    profile.add(recording.profile);
  }
  CUDA_CHECK(cudaGraphLaunch(recording.graph, stream));
  return called;
}

// Nothing runs yet: `work` only queues. False: some of it cannot be recorded.
bool Graphs::record(Recording& recording, const std::function<void()>& work, cudaStream_t stream,
                    Profile& profile) {
  const Profile before = profile;
  profile.reset();
  cudaGraph_t graph = nullptr;
  std::string why;
  // Other threads (ranks that share the GPU) go on as they like.
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    work();
  } catch (const std::exception& error) {
    why = error.what();
  }
  const cudaError_t status = cudaStreamEndCapture(stream, &graph);
  if (why.empty() && status != cudaSuccess) why = cudaGetErrorString(status);
  if (why.empty()) {
    const cudaError_t made = cudaGraphInstantiate(&recording.graph, graph, 0);
    if (made != cudaSuccess) why = cudaGetErrorString(made);
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  recording.profile = profile;
  profile = before;
  if (why.empty()) {
    profile.add(recording.profile);
    return true;
  }
  cudaGetLastError();  // the refusal must not surface again at the next launch
  recording.graph = nullptr;
  spdlog::warn(
      "cuda: a micro-batch cannot be replayed as a graph ({}); its kernels are launched "
      "one by one",
      why);
  return false;
}

}  // namespace stretto::cuda
