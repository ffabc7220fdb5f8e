#include "base/trace.h"

#include <algorithm>

namespace stretto {
namespace {

thread_local TraceBuffer* t_buffer = nullptr;

uint64_t mixed(uint64_t x) {  // each bit of x affects all bits of the result
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ x >> 33;
}

}  // namespace

const char* name_of(TraceLane lane) {
  constexpr const char* kNames[kTraceLanes] = {"step",
                                               "compute",
                                               "GPU",
                                               "GPU: copies to the host",
                                               "GPU: copies to the GPU",
                                               "waiting: pp",
                                               "waiting: tp",
                                               "waiting: dp",
                                               "waiting: job",
                                               "loader",
                                               "save",
                                               "save (writing)"};
  return kNames[static_cast<size_t>(lane)];
}

void TraceBuffer::add(const TraceSlice& slice) {
  const TraceEvent& span = slice.span;
  add(span);
  const auto arrow = [&](TraceEvent::Kind kind, double time, uint64_t id) {
    TraceEvent event;
    event.name = slice.message;
    event.lane = span.lane;
    event.kind = kind;
    event.start = event.end = time;
    event.id = id;
    add(event);
  };
  // An arrow leaves so many seconds before the end of its slice, so that viewers attach it there.
  constexpr double kInside = 1e-9;
  if (slice.in != 0) arrow(TraceEvent::Kind::flow_in, span.start, slice.in);
  if (slice.out == 0) return;
  arrow(TraceEvent::Kind::flow_out, std::max(span.start, span.end - kInside), slice.out);
}

TraceBuffer* current_trace() { return t_buffer; }

TraceScope::TraceScope(TraceBuffer* buffer) : before_(t_buffer) { t_buffer = buffer; }
TraceScope::~TraceScope() { t_buffer = before_; }

uint64_t flow_id(uint64_t scope, int from, int to, int tag) {
  const uint64_t ends =
      static_cast<uint64_t>(static_cast<uint32_t>(from)) << 32 | static_cast<uint32_t>(to);
  const uint64_t all = mixed(mixed(mixed(scope + 1) ^ ends) ^ static_cast<uint32_t>(tag));
  return all & ((uint64_t{1} << 53) - 1);  // viewers read numbers as doubles, which hold 53 bits
}

}  // namespace stretto
