// Memory, copies between host and device, and the time of operators.
#include "backend/backend.h"

#include "backend/operator.h"
#include "base/clock.h"
#include "base/trace.h"
#include "base/units.h"

namespace stretto {

void Backend::range_begin(Op) { range_start_ = clock_seconds(); }
void Backend::range_end(Op op) {
  const double end = clock_seconds();
  profile_.add_seconds(op, end - range_start_);
  TraceBuffer* trace = current_trace();
  if (trace != nullptr && trace->operators()) {
    trace->span(TraceLane::compute, name_of(op), range_start_, end);
  }
}

bool Backend::repeat(uint64_t, const std::function<void()>& work) {
  work();
  return true;
}

Buffer Backend::allocate(size_t bytes, const char* label) {
  Buffer buffer = do_allocate(bytes, label);
  STRETTO_CHECK(bytes == 0 || buffer.data() != nullptr, "allocation of {} for {}",
                format_bytes(static_cast<double>(bytes)), label);
  return buffer;
}

void Backend::copy(Tensor dst, ConstTensor src) {
  if (dst.count() == 0) return;
  check_same("copy: dst", dst, src);
  Range range(*this, Op::copy, 0, sizes_of(dst, src));
  do_copy(dst, src);
}

void Backend::copy_from_host(Tensor dst, const void* src) {
  Range range(*this, Op::copy, 0, sizes_of(dst));
  do_copy_from_host(dst, src);
}

void Backend::copy_to_host(void* dst, ConstTensor src) {
  Range range(*this, Op::copy, 0, sizes_of(src));
  do_copy_to_host(dst, src);
}

Buffer Backend::allocate_host(size_t bytes, const char* label) {
  return do_allocate_host(bytes, label);
}

// Counted but not timed, because such copies run beside the operators.
void Backend::start_copy_to_host(Lane lane, void* host, ConstTensor src) {
  if (src.count() == 0) return;
  profile_.add(Op::copy, 0, size_of(src));
  do_start_copy_to_host(lane, host, src);
}

void Backend::start_copy_from_host(Lane lane, Tensor dst, const void* host) {
  if (dst.count() == 0) return;
  profile_.add(Op::copy, 0, size_of(dst));
  do_start_copy_from_host(lane, dst, host);
}

Buffer Backend::do_allocate_host(size_t bytes, const char* label) {
  return do_allocate(bytes, label);
}

void Backend::do_start_copy_to_host(Lane, void* host, ConstTensor src) {
  do_copy_to_host(host, src);
}

void Backend::do_start_copy_from_host(Lane, Tensor dst, const void* host) {
  do_copy_from_host(dst, host);
}

void Backend::fill_zero(Tensor t) {
  Range range(*this, Op::fill, 0, sizes_of(t));
  do_fill_zero(t);
}

void Backend::convert(Tensor dst, ConstTensor src) {
  if (dst.count() == 0) return;
  check_count("convert: dst", dst, src.count());
  Range range(*this, Op::convert, 0, sizes_of(dst, src));
  do_convert(dst, src);
}

}  // namespace stretto
