// What is opened around every operator: its work is counted, and its time taken.
#pragma once

#include "backend/backend.h"

namespace stretto {

class Backend::Range {
 public:
  Range(Backend& backend, Op op, double flops, double bytes) : backend_(backend), op_(op) {
    backend_.profile_.add(op, flops, bytes);
    backend_.range_begin(op);
  }
  ~Range() { backend_.range_end(op_); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  Backend& backend_;
  Op op_;
};

}  // namespace stretto
