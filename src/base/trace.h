// A timeline of what one rank does: spans on lanes, and arrows between ranks, in memory that is
// allocated beforehand. A rank is one thread, and code that records (operators, waits in
// collectives, tasks) uses the buffer of its own thread, or records nothing if there is none.
//   TraceBuffer buffer(1 << 16, TraceDetail::operators);
//   {
//     const TraceScope scope(&buffer);
//     trainer.step();
//   }
//   for (const TraceEvent& event : buffer.events()) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"

namespace stretto {

// Viewers require that two slices of a lane are disjoint, or one is inside the other.
enum class TraceLane : uint8_t {
  step,
  compute,  // what this thread does; of a GPU's work only that it is queued
  gpu,
  gpu_to_host,
  gpu_from_host,
  pp,
  tp,
  dp,
  job,
  loader,
  save,
  writer,
};
constexpr int kTraceLanes = static_cast<int>(TraceLane::writer) + 1;
const char* name_of(TraceLane lane);

enum class TraceDetail { tasks, operators };  // tasks: pipeline tasks and the step only

struct TraceEvent {
  enum class Kind : uint8_t { span, flow_out, flow_in };
  const char* name = nullptr;  // a string literal: never freed
  double start = 0, end = 0;   // seconds, by clock_seconds()
  uint64_t id = 0;             // of an arrow: equal at both ends
  int64_t number = -1;         // micro-batch of a task, number of a step; -1: none
  uint64_t bytes = 0;          // of a collective
  int32_t chunk = 0;           // model chunk of a task
  TraceLane lane = TraceLane::step;
  Kind kind = Kind::span;
};

// A span, and the messages that arrive at its start and leave at its end (their ids; 0: none).
struct TraceSlice {
  TraceEvent span;
  const char* message = nullptr;
  uint64_t in = 0, out = 0;
};

class TraceBuffer {
 public:
  TraceBuffer(size_t capacity, TraceDetail detail) : detail_(detail) { events_.reserve(capacity); }

  // Keeps the event, or only counts it if the buffer is full.
  void add(const TraceEvent& event) {
    if (events_.size() == events_.capacity()) {
      ++dropped_;
    } else {
      events_.push_back(event);
    }
  }
  void add(const TraceSlice& slice);
  void span(TraceLane lane, const char* name, double start, double end, uint64_t bytes = 0) {
    add(TraceEvent{name, start, end, 0, -1, bytes, 0, lane, TraceEvent::Kind::span});
  }

  void clear() {
    events_.clear();
    dropped_ = 0;
  }
  std::span<const TraceEvent> events() const { return events_; }
  uint64_t dropped() const { return dropped_; }
  bool operators() const { return detail_ == TraceDetail::operators; }
  // Becomes part of the ids of arrows, and so separates steps and replicas.
  void set_scope(uint64_t scope) { scope_ = scope; }
  uint64_t scope() const { return scope_; }

 private:
  std::vector<TraceEvent> events_;
  TraceDetail detail_;
  uint64_t dropped_ = 0;
  uint64_t scope_ = 0;
};

TraceBuffer* current_trace();  // of this thread; nullptr: nothing is recorded

class TraceScope {  // records what this thread does during its lifetime
 public:
  explicit TraceScope(TraceBuffer* buffer);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  TraceBuffer* before_;
};

// A span that ends with the enclosing block, for parts of a step.
class TraceSpan {
 public:
  TraceSpan(TraceLane lane, const char* name, int64_t number = -1, int32_t chunk = 0)
      : buffer_(current_trace()) {
    if (buffer_ == nullptr) return;
    event_.name = name;
    event_.lane = lane;
    event_.number = number;
    event_.chunk = chunk;
    event_.start = clock_seconds();
  }
  ~TraceSpan() {
    if (buffer_ == nullptr) return;
    event_.end = clock_seconds();
    buffer_->add(event_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  TraceBuffer* buffer_;
  TraceEvent event_;
};

// The id of a message between pipeline ranks. Sender and receiver compute the same one, and equal
// ids make an arrow.
uint64_t flow_id(uint64_t scope, int from, int to, int tag);

}  // namespace stretto
