// Comm: how ranks talk. All ranks of a communicator must make the same calls in the same order with
// the same shapes, or all of them wait until the watchdog ends the job.
//
// Sums are taken in rank order 0, 1, ... n-1 by every transport for host memory, so results are
// bit-equal between transports, between all_reduce and reduce_scatter + all_gather, and run to run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace stretto {

enum class ReduceOp { sum, max };

// A started operation. wait() returns when the tensors may be used again; the destructor waits.
class Request {
 public:
  virtual ~Request() = default;
  virtual void wait() = 0;
  virtual bool done() = 0;
};
using RequestPtr = std::unique_ptr<Request>;

// Bytes this rank sent per kind of call, by the closed-form volume of docs/parallelism.md:
// ring volumes, i.e. all_reduce 2(n-1)/n, reduce_scatter and all_gather (n-1)/n of the full tensor.
struct CommCounters {
  uint64_t all_reduce_bytes = 0;
  uint64_t reduce_scatter_bytes = 0;
  uint64_t all_gather_bytes = 0;
  uint64_t broadcast_bytes = 0;
  uint64_t send_bytes = 0;
  uint64_t calls = 0;
  double seconds = 0;  // this rank spent waiting in calls (exposed time)
};

class Comm {
 public:
  virtual ~Comm() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* transport() const = 0;  // "self", "threads", "mpi", "nccl"

  // Ranks with the same colour form a new communicator, ordered by key. Collective.
  virtual std::unique_ptr<Comm> split(int colour, int key, const std::string& name) = 0;

  void all_reduce(Tensor t, ReduceOp op = ReduceOp::sum);  // in place; f32, f64, bf16, i32
  void reduce_scatter(Tensor out, ConstTensor in);         // in: size() equal parts; sum of part rank()
  void all_gather(Tensor out, ConstTensor in);             // out: size() parts in rank order
  void broadcast(Tensor t, int root);
  void send(ConstTensor t, int to, int tag = 0);
  void recv(Tensor t, int from, int tag = 0);
  void barrier();

  // Started forms, for overlap with compute. The tensors stay untouched until wait().
  RequestPtr start_all_reduce(Tensor t, ReduceOp op = ReduceOp::sum);
  RequestPtr start_reduce_scatter(Tensor out, ConstTensor in);
  RequestPtr start_all_gather(Tensor out, ConstTensor in);
  RequestPtr start_send(ConstTensor t, int to, int tag = 0);
  RequestPtr start_recv(Tensor t, int from, int tag = 0);

  // Ends the whole job, this rank and all peers: the message is printed once.
  [[noreturn]] virtual void abort(int exit_code, const std::string& message) = 0;

  const CommCounters& counters() const { return counters_; }
  void reset_counters() { counters_ = {}; }
  const std::string& name() const { return name_; }

 protected:
  explicit Comm(std::string name) : name_(std::move(name)) {}

  virtual RequestPtr do_all_reduce(Tensor t, ReduceOp op) = 0;
  virtual RequestPtr do_reduce_scatter(Tensor out, ConstTensor in) = 0;
  virtual RequestPtr do_all_gather(Tensor out, ConstTensor in) = 0;
  virtual RequestPtr do_broadcast(Tensor t, int root) = 0;
  virtual RequestPtr do_send(ConstTensor t, int to, int tag) = 0;
  virtual RequestPtr do_recv(Tensor t, int from, int tag) = 0;
  virtual RequestPtr do_barrier() = 0;

 private:
  std::string name_;
  CommCounters counters_;
};

}  // namespace stretto
