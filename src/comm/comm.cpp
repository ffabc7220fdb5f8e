// The public half of Comm: checks arguments, counts bytes, times exposed waits, and tells the
// monitor.
#include "comm/comm.h"

#include <exception>

#include "base/clock.h"
#include "base/trace.h"

namespace stretto {
namespace {

bool reducible(DType type) {
  return type == DType::f32 || type == DType::f64 || type == DType::bf16 || type == DType::f16 ||
         type == DType::i32;
}

TraceLane lane_of(const std::string& group) {
  if (group.starts_with("dp")) return TraceLane::dp;
  if (group == "tp") return TraceLane::tp;
  return group == "pp" || group == "embedding" ? TraceLane::pp : TraceLane::job;
}

}  // namespace

class Comm::Exposed {
 public:
  Exposed(Comm& comm, CommKind kind, uint64_t bytes)
      : comm_(comm), kind_(kind), bytes_(bytes), begin_(clock_seconds()) {
    comm_.monitor_->wait_begins(kind, bytes, comm_.tag_);
  }
  ~Exposed() {
    comm_.monitor_->wait_ends();
    if (comm_.waits_on_device()) return;
    const double end = clock_seconds();
    comm_.counters_.seconds += end - begin_;
    TraceBuffer* trace = current_trace();
    if (trace == nullptr || !trace->operators() || comm_.size() == 1) return;
    trace->span(comm_.lane(), name_of(kind_), begin_, end, bytes_);
  }
  Exposed(const Exposed&) = delete;
  Exposed& operator=(const Exposed&) = delete;

 private:
  Comm& comm_;
  CommKind kind_;
  uint64_t bytes_;
  double begin_;
};

// The request that callers hold: its destructor waits, except while an exception unwinds the stack.
class TrackedRequest final : public Request {
 public:
  TrackedRequest(Comm& comm, CommKind kind, uint64_t bytes, uint64_t seq, RequestPtr inner)
      : comm_(comm), kind_(kind), bytes_(bytes), seq_(seq), inner_(std::move(inner)) {
    if (!inner_) comm_.monitor_->finish(seq_);
  }

  ~TrackedRequest() override {
    if (!inner_ || std::uncaught_exceptions() > exceptions_) return;
    try {
      wait();
    } catch (const std::exception&) {  // the job is ending: this rank's next call reports it
    }
  }

  void wait() override {
    if (!inner_) return;
    // Moved out first, so that a failing wait destroys it and thereby gives the operation up.
    const RequestPtr inner = std::move(inner_);
    const Comm::Exposed exposed(comm_, kind_, bytes_);
    inner->wait();
    comm_.monitor_->finish(seq_);
  }

  bool done() override { return !inner_ || inner_->done(); }

 private:
  Comm& comm_;
  CommKind kind_;
  uint64_t bytes_;
  uint64_t seq_;
  RequestPtr inner_;
  int exceptions_ = std::uncaught_exceptions();
};

Comm::Comm(std::string name, std::shared_ptr<RankMonitor> monitor)
    : name_(std::move(name)),
      lane_(lane_of(name_)),
      tag_(group_tag(name_)),
      monitor_(std::move(monitor)) {}

template <typename Start>
void Comm::run_blocking(CommKind kind, uint64_t bytes, Start&& start) {
  ++counters_.calls;
  const uint64_t seq = monitor_->begin(kind, bytes, tag_);
  const Exposed exposed(*this, kind, bytes);
  const RequestPtr request = start();
  if (request) request->wait();
  monitor_->finish(seq);
}

template <typename Start>
RequestPtr Comm::run_started(CommKind kind, uint64_t bytes, Start&& start) {
  ++counters_.calls;
  const uint64_t seq = monitor_->begin(kind, bytes, tag_);
  const Exposed exposed(*this, kind, bytes);
  return std::make_unique<TrackedRequest>(*this, kind, bytes, seq, start());
}

void Comm::check_reducible(ConstTensor t) const {
  STRETTO_CHECK(reducible(t.dtype()), "{} in a sum over group {}", dtype_name(t.dtype()), name_);
  STRETTO_CHECK(t || t.count() == 0, "no data, group {}", name_);
}

void Comm::check_parts(ConstTensor part, ConstTensor whole) const {
  STRETTO_CHECK(part.dtype() == whole.dtype(), "{} and {}, group {}", dtype_name(part.dtype()),
                dtype_name(whole.dtype()), name_);
  STRETTO_CHECK(part.count() * size() == whole.count(), "{} parts of {} are not {}, group {}",
                size(), part.count(), whole.count(), name_);
}

void Comm::check_peer(ConstTensor t, int peer) const {
  STRETTO_CHECK(0 <= peer && peer < size(), "rank {} in group {} of {}", peer, name_, size());
  STRETTO_CHECK(t || t.count() == 0, "no data, group {}", name_);
}

void Comm::all_reduce(Tensor t, ReduceOp op) {
  check_reducible(t);
  counters_.all_reduce_bytes += ring_all_reduce_bytes(t.bytes(), size());
  run_blocking(CommKind::all_reduce, t.bytes(), [&] { return do_all_reduce(t, op); });
}

RequestPtr Comm::start_all_reduce(Tensor t, ReduceOp op) {
  check_reducible(t);
  counters_.all_reduce_bytes += ring_all_reduce_bytes(t.bytes(), size());
  return run_started(CommKind::all_reduce, t.bytes(), [&] { return do_all_reduce(t, op); });
}

void Comm::reduce_scatter(Tensor out, ConstTensor in) {
  check_reducible(in);
  check_parts(out, in);
  counters_.reduce_scatter_bytes += ring_share_bytes(in.bytes(), size());
  run_blocking(CommKind::reduce_scatter, in.bytes(),
               [&] { return do_reduce_scatter(out, in, Accumulate::no); });
}

RequestPtr Comm::start_reduce_scatter(Tensor out, ConstTensor in, Accumulate add) {
  check_reducible(in);
  check_parts(out, in);
  counters_.reduce_scatter_bytes += ring_share_bytes(in.bytes(), size());
  return run_started(CommKind::reduce_scatter, in.bytes(),
                     [&] { return do_reduce_scatter(out, in, add); });
}

void Comm::all_gather(Tensor out, ConstTensor in) {
  check_parts(in, out);
  counters_.all_gather_bytes += ring_share_bytes(out.bytes(), size());
  run_blocking(CommKind::all_gather, out.bytes(), [&] { return do_all_gather(out, in); });
}

RequestPtr Comm::start_all_gather(Tensor out, ConstTensor in) {
  check_parts(in, out);
  counters_.all_gather_bytes += ring_share_bytes(out.bytes(), size());
  return run_started(CommKind::all_gather, out.bytes(), [&] { return do_all_gather(out, in); });
}

void Comm::broadcast(Tensor t, int root) {
  check_peer(t, root);
  counters_.broadcast_bytes += ring_share_bytes(t.bytes(), size());
  run_blocking(CommKind::broadcast, t.bytes(), [&] { return do_broadcast(t, root); });
}

void Comm::send(ConstTensor t, int to, int tag) {
  check_peer(t, to);
  counters_.send_bytes += t.bytes();
  run_blocking(CommKind::send, t.bytes(), [&] { return do_send(t, to, tag); });
}

RequestPtr Comm::start_send(ConstTensor t, int to, int tag) {
  check_peer(t, to);
  counters_.send_bytes += t.bytes();
  return run_started(CommKind::send, t.bytes(), [&] { return do_send(t, to, tag); });
}

void Comm::recv(Tensor t, int from, int tag) {
  check_peer(t, from);
  run_blocking(CommKind::recv, t.bytes(), [&] { return do_recv(t, from, tag); });
}

RequestPtr Comm::start_recv(Tensor t, int from, int tag) {
  check_peer(t, from);
  return run_started(CommKind::recv, t.bytes(), [&] { return do_recv(t, from, tag); });
}

std::unique_ptr<Comm> Comm::split(int colour, int key, const std::string& name) {
  const uint64_t seq = monitor_->begin(CommKind::split, 0, tag_);
  const Exposed exposed(*this, CommKind::split, 0);
  std::unique_ptr<Comm> part = do_split(colour, key, name);
  monitor_->finish(seq);
  return part;
}

void Comm::barrier() {
  run_blocking(CommKind::barrier, 0, [&] { return do_barrier(); });
}

}  // namespace stretto
