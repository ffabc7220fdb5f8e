// One rank's memory: the plan of account/memory.h, allocated once and looked up by label.
#pragma once

#include <string>
#include <unordered_map>

#include "account/memory.h"
#include "backend/backend.h"
#include "tensor/arena.h"

namespace stretto {

class RankMemory {
 public:
  // Allocates the whole plan and zeroes it, so that every planned page really exists.
  RankMemory(Backend& backend, const RankShape& shape);
  ~RankMemory();
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;

  Tensor at(const std::string& label) const;    // throws for a label that is not in the plan
  Tensor host(const std::string& label) const;  // in host memory: the list of host_plan()
  size_t planned_bytes() const { return planned_; }
  size_t used_bytes() const { return arena_.used(); }
  size_t host_bytes() const { return host_arena_.used(); }

 private:
  Backend& backend_;
  Arena arena_, host_arena_;
  size_t planned_ = 0;
  std::unordered_map<std::string, Tensor> tensors_, host_tensors_;
};

}  // namespace stretto
