#include "base/trace.h"

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
  constexpr const char* kNames[kTraceLanes] = {"step",        "compute",     "waiting: pp",
                                               "waiting: tp", "waiting: dp", "waiting: job",
                                               "loader",      "save",        "save (writing)"};
  return kNames[static_cast<size_t>(lane)];
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
