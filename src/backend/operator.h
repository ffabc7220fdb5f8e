// The public half of every operator: it checks, counts the work, opens a range and calls the
// backend. An empty micro-batch (no rows) is legal everywhere and does nothing.
#pragma once

#include "backend/backend.h"
#include "base/error.h"

namespace stretto {

// Exists while an operator runs, counts its work and takes its time.
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

inline double size_of(ConstTensor t) { return t.none() ? 0.0 : static_cast<double>(t.bytes()); }

template <typename... T>
double sizes_of(const T&... t) {
  return (size_of(t) + ...);
}

inline void check_count(const char* what, ConstTensor t, int64_t count) {
  STRETTO_CHECK(t.none() || t.count() == count, "{} has shape {}, expected {} elements", what,
                t.shape().text(), count);
}

inline void check_type(const char* what, ConstTensor t, DType type) {
  STRETTO_CHECK(t.none() || t.dtype() == type, "{} is {}, expected {}", what, dtype_name(t.dtype()),
                dtype_name(type));
}

inline void check_same(const char* what, ConstTensor t, ConstTensor like) {
  check_count(what, t, like.count());
  check_type(what, t, like.dtype());
}

inline double d(int64_t x) { return static_cast<double>(x); }

}  // namespace stretto
