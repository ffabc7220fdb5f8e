// Recorded work: what a function queued on a stream, kept as a graph and launched as one.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <map>

#include "backend/profile.h"

namespace stretto::cuda {

class Graphs {
 public:
  Graphs() = default;
  ~Graphs();
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  // The first call of a key runs `work` as it is: algorithms are chosen and workspaces grow. The
  // second records it, later ones replay and add the same counts to `profile`. Work that cannot be
  // recorded runs as it is every time; the log says so once. Returns whether `work` was called.
  bool run(uint64_t key, const std::function<void()>& work, cudaStream_t stream, Profile& profile);
  // What was recorded is recorded again at its next call. Nothing of it may be running.
  void forget();

 private:
  struct Recording {
    int calls = 0;
    bool refused = false;
    cudaGraphExec_t graph = nullptr;
    Profile profile;
  };
  bool record(Recording& recording, const std::function<void()>& work, cudaStream_t stream,
              Profile& profile);

  static constexpr size_t kMost = 64;  // graphs take some megabytes each
  std::map<uint64_t, Recording> recordings_;
  bool full_ = false;
};

}  // namespace stretto::cuda
