// A timeline of what one rank does: spans on lanes and arrows between ranks, kept in memory that is
// allocated beforehand. A rank is one thread; what records (operators, waits in collectives, tasks)
// asks for the buffer of its own thread, and records nothing where there is none.
//
//     TraceBuffer buffer(1 << 16, TraceDetail::operators);
//     { const TraceScope scope(&buffer); trainer.step(); }
//     for (const TraceEvent& event : buffer.events()) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"

namespace stretto {

// Slices of one lane never overlap unless one holds the other: viewers ask for that.
enum class TraceLane : uint8_t { step, compute, pp, tp, dp, job, loader, save, writer };
constexpr int kTraceLanes = static_cast<int>(TraceLane::writer) + 1;
const char* name_of(TraceLane lane);

enum class TraceDetail { tasks, operators };  // tasks: pipeline tasks and the step only

struct TraceEvent {
  enum class Kind : uint8_t { span, flow_out, flow_in };
  const char* name = nullptr;  // a literal: never freed
  double start = 0, end = 0;   // seconds, by clock_seconds()
  uint64_t id = 0;             // of a flow: the same at both ends
  int64_t number = -1;         // micro-batch of a task, number of a step; -1: none
  uint64_t bytes = 0;          // of a collective
  int32_t chunk = 0;           // model chunk of a task
  TraceLane lane = TraceLane::step;
  Kind kind = Kind::span;
};

class TraceBuffer {
 public:
  TraceBuffer(size_t capacity, TraceDetail detail) : detail_(detail) { events_.reserve(capacity); }

  // Events beyond the capacity are counted, not kept.
  void add(const TraceEvent& event) {
    if (events_.size() == events_.capacity()) {
      ++dropped_;
    } else {
      events_.push_back(event);
    }
  }
  void span(TraceLane lane, const char* name, double start, double end, uint64_t bytes = 0) {
    add({name, start, end, 0, -1, bytes, 0, lane, TraceEvent::Kind::span});
  }

  void clear() {
    events_.clear();
    dropped_ = 0;
  }
  std::span<const TraceEvent> events() const { return events_; }
  uint64_t dropped() const { return dropped_; }
  bool operators() const { return detail_ == TraceDetail::operators; }
  // Part of the ids of flows: tells steps and replicas apart.
  void set_scope(uint64_t scope) { scope_ = scope; }
  uint64_t scope() const { return scope_; }

 private:
  std::vector<TraceEvent> events_;
  TraceDetail detail_;
  uint64_t dropped_ = 0;
  uint64_t scope_ = 0;
};

TraceBuffer* current_trace();  // of this thread; nullptr: nothing is recorded

class TraceScope {  // records what this thread does while it lives
 public:
  explicit TraceScope(TraceBuffer* buffer);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  TraceBuffer* before_;
};

// A span from here to the end of the block, for parts of a step.
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

// One message between pipeline ranks, as sender and receiver both know it: equal ids make an arrow.
uint64_t flow_id(uint64_t scope, int from, int to, int tag);

}  // namespace stretto
