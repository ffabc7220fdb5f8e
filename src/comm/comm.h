// Comm: how ranks talk. All ranks of a communicator must make the same calls in the same order with
// the same shapes, or all of them wait until the watchdog ends the job.
//
// Sums are taken in rank order 0, 1, ... n-1 by every transport for host memory, so results are
// bit-equal between transports, between all_reduce and reduce_scatter + all_gather, and run to run.
// Narrow types (bf16, f16) are summed in f32 and rounded once.
//
// How to use it in a layer:
//     tp.all_reduce(out);                            // blocking, in place
//     auto sent = pp.start_send(activations, next);  // started: go on computing
//     ...
//     sent->wait();                                  // now `activations` may be written again
//
// Where communicators come from: make_self_comm() below, run_thread_ranks() in threads.h,
// make_mpi_comm() in mpi.h; more of them by split(). A Request must not outlive its Comm, and one
// Comm belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/monitor.h"
#include "comm/recycle.h"
#include "tensor/tensor.h"

namespace stretto {

enum class ReduceOp { sum, max };
enum class Accumulate { no, yes };

// A started operation. wait() returns when the tensors may be used again; the destructor waits.
// While an exception unwinds the stack the destructor gives the operation up instead (and with it
// the job), so that a failing rank never waits for its peers.
class Request {
 public:
  virtual ~Request() = default;
  virtual void wait() = 0;
  virtual bool done() = 0;

  // Every step starts the same operations again: their handles are recycled, not allocated.
  static void* operator new(size_t bytes) { return take_block(bytes); }
  static void operator delete(void* block, size_t bytes) noexcept { give_block(block, bytes); }
};
using RequestPtr = std::unique_ptr<Request>;

// Bytes this rank sent per kind of call, by the closed-form volume of docs/parallelism.md:
// ring volumes, i.e. all_reduce 2(n-1)/n, reduce_scatter, all_gather and broadcast (n-1)/n of the
// full tensor, each call rounded down (see the ring_* functions).
struct CommCounters {
  uint64_t all_reduce_bytes = 0;
  uint64_t reduce_scatter_bytes = 0;
  uint64_t all_gather_bytes = 0;
  uint64_t broadcast_bytes = 0;
  uint64_t send_bytes = 0;
  uint64_t calls = 0;
  double seconds = 0;  // this rank spent waiting in calls (exposed time)

  uint64_t bytes() const {
    return all_reduce_bytes + reduce_scatter_bytes + all_gather_bytes + broadcast_bytes +
           send_bytes;
  }
  CommCounters& operator+=(const CommCounters& more) {
    all_reduce_bytes += more.all_reduce_bytes;
    reduce_scatter_bytes += more.reduce_scatter_bytes;
    all_gather_bytes += more.all_gather_bytes;
    broadcast_bytes += more.broadcast_bytes;
    send_bytes += more.send_bytes;
    calls += more.calls;
    seconds += more.seconds;
    return *this;
  }
};

// What one call adds to the counters of each of n ranks; `bytes` is the full tensor.
constexpr uint64_t ring_share_bytes(uint64_t bytes, int n) {
  return bytes * static_cast<uint64_t>(n - 1) / static_cast<uint64_t>(n);
}
constexpr uint64_t ring_all_reduce_bytes(uint64_t bytes, int n) {
  return 2 * bytes * static_cast<uint64_t>(n - 1) / static_cast<uint64_t>(n);
}

class Comm {
 public:
  virtual ~Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* transport() const = 0;  // "self", "threads", "mpi", "nccl"

  // Ranks with the same colour form a new communicator, ordered by key. Collective. A negative
  // colour takes part in the call only and gets nullptr.
  std::unique_ptr<Comm> split(int colour, int key, const std::string& name);

  void all_reduce(Tensor t, ReduceOp op = ReduceOp::sum);  // in place; f32, f64, bf16, f16, i32
  // in: size() equal parts; out: sum of part rank(). `out` may be exactly that part of `in`.
  void reduce_scatter(Tensor out, ConstTensor in);
  // out: size() parts in rank order. `in` may be exactly part rank() of `out`.
  void all_gather(Tensor out, ConstTensor in);
  void broadcast(Tensor t, int root);
  // A blocking send may wait for its receive: two ranks that both send first stand still.
  void send(ConstTensor t, int to, int tag = 0);
  void recv(Tensor t, int from, int tag = 0);
  void barrier();

  // Started forms, for overlap with compute. The tensors stay untouched until wait(). Requests may
  // be waited for in any order.
  RequestPtr start_all_reduce(Tensor t, ReduceOp op = ReduceOp::sum);
  // With Accumulate::yes the sum begins with what `out` holds: out + part of rank 0 + rank 1 + ...
  RequestPtr start_reduce_scatter(Tensor out, ConstTensor in, Accumulate add = Accumulate::no);
  RequestPtr start_all_gather(Tensor out, ConstTensor in);
  RequestPtr start_send(ConstTensor t, int to, int tag = 0);
  RequestPtr start_recv(Tensor t, int from, int tag = 0);

  // Ends the whole job, this rank and all peers: the message is printed once. Any thread may call.
  [[noreturn]] virtual void abort(int exit_code, const std::string& message) = 0;

  const CommCounters& counters() const { return counters_; }
  void reset_counters() { counters_ = {}; }
  const std::string& name() const { return name_; }

  // What the watchdog knows of this rank: shared by all communicators split from one.
  RankMonitor& monitor() const { return *monitor_; }

 protected:
  Comm(std::string name, std::shared_ptr<RankMonitor> monitor);
  const std::shared_ptr<RankMonitor>& shared_monitor() const { return monitor_; }

  // Each starts one operation; nullptr means it is complete already. A destroyed request that
  // nobody waited for is given up: it must not block for ever.
  virtual RequestPtr do_all_reduce(Tensor t, ReduceOp op) = 0;
  virtual RequestPtr do_reduce_scatter(Tensor out, ConstTensor in, Accumulate add) = 0;
  virtual RequestPtr do_all_gather(Tensor out, ConstTensor in) = 0;
  virtual RequestPtr do_broadcast(Tensor t, int root) = 0;
  virtual RequestPtr do_send(ConstTensor t, int to, int tag) = 0;
  virtual RequestPtr do_recv(Tensor t, int from, int tag) = 0;
  virtual RequestPtr do_barrier() = 0;
  virtual std::unique_ptr<Comm> do_split(int colour, int key, const std::string& name) = 0;

 private:
  friend class TrackedRequest;
  class Exposed;  // times and marks one stretch of waiting

  template <typename Start>
  void run_blocking(CommKind kind, uint64_t bytes, Start&& start);
  template <typename Start>
  RequestPtr run_started(CommKind kind, uint64_t bytes, Start&& start);

  void check_reducible(ConstTensor t) const;
  void check_parts(ConstTensor part, ConstTensor whole) const;
  void check_peer(ConstTensor t, int peer) const;

  std::string name_;
  GroupTag tag_;
  std::shared_ptr<RankMonitor> monitor_;
  CommCounters counters_;
};

// One rank alone: every call is an identity or a copy.
std::unique_ptr<Comm> make_self_comm(const std::string& name = "world");

}  // namespace stretto
