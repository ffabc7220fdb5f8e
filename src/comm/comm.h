// Comm: how ranks talk. All ranks of a communicator must make the same calls in the same order with
// the same shapes, or they wait for each other until the watchdog ends the job.
//
// Every transport for host memory takes sums in rank order 0, 1, ... n-1. So results are bit-equal
// between transports, between all_reduce and reduce_scatter + all_gather, and from run to run.
// Narrow types (bf16, f16) are summed in f32 and rounded once.
//
// How a layer uses it:
//   tp.all_reduce(out);                            // blocking, in place
//   auto sent = pp.start_send(activations, next);  // started: computing may go on
//   ...
//   sent->wait();                                  // now `activations` may be written again
//
// Communicators come from make_self_comm() below, run_thread_ranks() in threads.h and
// make_mpi_comm() in mpi.h, and from split() of another one. A Request must not outlive its Comm,
// and a Comm belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/trace.h"
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

  // Every step starts the same operations, so memory of requests is recycled, not allocated.
  static void* operator new(size_t bytes) { return take_block(bytes); }
  static void operator delete(void* block, size_t bytes) noexcept { give_block(block, bytes); }
};
using RequestPtr = std::unique_ptr<Request>;

// Bytes that this rank sent by each kind of call, as given by the closed forms of
// docs/parallelism.md: ring volumes, that is 2(n-1)/n of the full tensor for all_reduce and (n-1)/n
// for reduce_scatter, all_gather and broadcast, each call rounded down (see the ring_* functions).
struct CommCounters {
  uint64_t all_reduce_bytes = 0;
  uint64_t reduce_scatter_bytes = 0;
  uint64_t all_gather_bytes = 0;
  uint64_t broadcast_bytes = 0;
  uint64_t send_bytes = 0;
  uint64_t calls = 0;
  double seconds = 0;  // for which this rank waited in calls (exposed time)

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

// What one call adds to the counter of each of n ranks; `bytes` is the size of the full tensor.
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

  // Ranks with the same colour form a new communicator, ordered by key. Collective. A rank with a
  // negative colour only takes part in the call and gets nullptr.
  std::unique_ptr<Comm> split(int colour, int key, const std::string& name);

  void all_reduce(Tensor t, ReduceOp op = ReduceOp::sum);  // in place; f32, f64, bf16, f16, i32
  // in: size() equal parts; out: sum of part rank(). `out` may be exactly that part of `in`.
  void reduce_scatter(Tensor out, ConstTensor in);
  // out: size() parts in rank order. `in` may be exactly part rank() of `out`.
  void all_gather(Tensor out, ConstTensor in);
  void broadcast(Tensor t, int root);
  // A send may block until it is received: two ranks that both send first may wait for ever.
  void send(ConstTensor t, int to, int tag = 0);
  void recv(Tensor t, int from, int tag = 0);
  void barrier();

  // Started forms, to overlap with compute. Tensors must not be touched until wait(). Requests may
  // be waited for in any order.
  RequestPtr start_all_reduce(Tensor t, ReduceOp op = ReduceOp::sum);
  // With Accumulate::yes the sum begins with what `out` holds: out + part of rank 0 + rank 1 + ...
  RequestPtr start_reduce_scatter(Tensor out, ConstTensor in, Accumulate add = Accumulate::no);
  RequestPtr start_all_gather(Tensor out, ConstTensor in);
  RequestPtr start_send(ConstTensor t, int to, int tag = 0);
  RequestPtr start_recv(Tensor t, int from, int tag = 0);

  // Ends the whole job, this rank and all its peers; the message is printed once. Any thread may
  // call it.
  [[noreturn]] virtual void abort(int exit_code, const std::string& message) = 0;

  const CommCounters& counters() const { return counters_; }
  void reset_counters() { counters_ = {}; }
  const std::string& name() const { return name_; }

  // Whether a device waits for requests, and wait() returns at once. Such a transport itself adds
  // to waited(), and to the timeline, how long that took.
  virtual bool waits_on_device() const { return false; }

  // The lane of a timeline that shows this rank's waiting; by default that of the group's axis.
  void show_waits_on(TraceLane lane) { lane_ = lane; }

  // What the watchdog knows about this rank. Communicators split from one another share it.
  RankMonitor& monitor() const { return *monitor_; }

 protected:
  Comm(std::string name, std::shared_ptr<RankMonitor> monitor);
  const std::shared_ptr<RankMonitor>& shared_monitor() const { return monitor_; }
  double* waited() { return &counters_.seconds; }
  TraceLane lane() const { return lane_; }

  // Each starts one operation; nullptr means that it is complete already. Destroying a request that
  // nobody waited for gives it up: the destructor must not block for ever.
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
  class Exposed;  // times one stretch of waiting and shows it to the monitor

  template <typename Start>
  void run_blocking(CommKind kind, uint64_t bytes, Start&& start);
  template <typename Start>
  RequestPtr run_started(CommKind kind, uint64_t bytes, Start&& start);

  void check_reducible(ConstTensor t) const;
  void check_parts(ConstTensor part, ConstTensor whole) const;
  void check_peer(ConstTensor t, int peer) const;

  std::string name_;
  TraceLane lane_;
  GroupTag tag_;
  std::shared_ptr<RankMonitor> monitor_;
  CommCounters counters_;
};

// One rank alone: every call is an identity or a copy.
std::unique_ptr<Comm> make_self_comm(const std::string& name = "world");

}  // namespace stretto
