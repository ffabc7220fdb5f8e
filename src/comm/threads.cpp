#include "comm/threads.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <thread>

#include "base/log.h"
#include "base/start_thread.h"
#include "comm/abort.h"
#include "comm/threads_group.h"

namespace stretto {
namespace {

using threads::Call;
using threads::Group;
using threads::Job;
using threads::MessagePtr;
using threads::OpPtr;
using threads::PeerStopped;

// A rank that drops an unfinished operation will not finish it any more, so its peers must stop,
// too.
void leave_job(Group& group, int rank) {
  group.job().stop(fmt::format("rank {} failed", group.world_rank(rank)));
}

class CollectiveRequest final : public Request {
 public:
  CollectiveRequest(std::shared_ptr<Group> group, int rank, OpPtr op)
      : group_(std::move(group)), rank_(rank), op_(std::move(op)) {}
  ~CollectiveRequest() override {
    if (op_->complete.load()) return;
    leave_job(*group_, rank_);
    op_->give_up();
  }
  void wait() override { group_->wait(*op_, rank_); }
  bool done() override {
    if (!op_->complete.load() && op_->ready.load()) op_->help(*group_);
    return op_->complete.load();
  }

 private:
  std::shared_ptr<Group> group_;
  int rank_;
  OpPtr op_;
};

class MessageRequest final : public Request {
 public:
  MessageRequest(std::shared_ptr<Group> group, CommKind kind, int self, int peer, MessagePtr m)
      : group_(std::move(group)), kind_(kind), self_(self), peer_(peer), message_(std::move(m)) {}
  ~MessageRequest() override {
    if (message_->done.load()) return;
    leave_job(*group_, self_);
    Group::give_up(message_, mail());
  }
  void wait() override { group_->wait(*message_, mail(), self_, peer_, kind_); }
  bool done() override { return message_->done.load(); }

 private:
  threads::Mailbox& mail() { return group_->box(kind_ == CommKind::send ? peer_ : self_); }

  std::shared_ptr<Group> group_;
  CommKind kind_;
  int self_;
  int peer_;
  MessagePtr message_;
};

class ThreadComm final : public Comm {
 public:
  ThreadComm(const std::string& name, std::shared_ptr<RankMonitor> monitor,
             std::shared_ptr<Group> group, int rank)
      : Comm(name, std::move(monitor)), group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  const char* transport() const override { return "threads"; }

  void abort(int exit_code, const std::string& message) override {
    report_before_exit(monitor().board(), exit_code, message);
    std::_Exit(exit_code);
  }

 protected:
  RequestPtr do_all_reduce(Tensor t, ReduceOp op) override {
    return start({CommKind::all_reduce, t.dtype(), op, 0, t.count()}, t.data(), t.data());
  }
  RequestPtr do_reduce_scatter(Tensor out, ConstTensor in, Accumulate add) override {
    return start({CommKind::reduce_scatter, in.dtype(), ReduceOp::sum, 0, out.count(), add},
                 in.data(), out.data());
  }
  RequestPtr do_all_gather(Tensor out, ConstTensor in) override {
    return start({CommKind::all_gather, in.dtype(), ReduceOp::sum, 0, in.count()}, in.data(),
                 out.data());
  }
  RequestPtr do_broadcast(Tensor t, int root) override {
    return start({CommKind::broadcast, t.dtype(), ReduceOp::sum, root, t.count()}, t.data(),
                 t.data());
  }
  RequestPtr do_barrier() override {
    return start({CommKind::barrier, DType::u8, ReduceOp::sum, 0, 0}, nullptr, nullptr);
  }
  std::unique_ptr<Comm> do_split(int colour, int key, const std::string& name) override {
    const Call call{CommKind::split, DType::u8, ReduceOp::sum, 0, 0};
    const OpPtr op = group_->post(rank_, seq_++, call, nullptr, nullptr, {colour, key});
    group_->wait(*op, rank_);
    const auto& [group, rank] = op->grants[static_cast<size_t>(rank_)];
    if (!group) return nullptr;
    return std::make_unique<ThreadComm>(name, shared_monitor(), group, rank);
  }
  RequestPtr do_send(ConstTensor t, int to, int tag) override {
    check_running(CommKind::send);
    MessagePtr message = group_->send(rank_, to, tag, t);
    if (!message) return nullptr;
    return std::make_unique<MessageRequest>(group_, CommKind::send, rank_, to, std::move(message));
  }
  RequestPtr do_recv(Tensor t, int from, int tag) override {
    check_running(CommKind::recv);
    MessagePtr message = group_->receive(from, rank_, tag, t);
    if (!message) return nullptr;
    return std::make_unique<MessageRequest>(group_, CommKind::recv, rank_, from,
                                            std::move(message));
  }

 private:
  RequestPtr start(const Call& call, const void* in, void* out) {
    OpPtr op = group_->post(rank_, seq_++, call, in, out);
    if (op->complete.load()) return nullptr;
    return std::make_unique<CollectiveRequest>(group_, rank_, std::move(op));
  }

  void check_running(CommKind kind) const {
    Job& job = group_->job();
    if (!job.stopped.load()) return;
    throw PeerStopped(ExitCode::peer_lost,
                      fmt::format("rank {}: {} in group {} not started: {}",
                                  group_->world_rank(rank_), name_of(kind), name(), job.why()));
  }

  std::shared_ptr<Group> group_;
  int rank_;
  uint64_t seq_ = 0;
};

// What the ranks report to the thread that started them.
struct Outcome {
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
  std::exception_ptr first;      // a rank's own error, the first one
  std::exception_ptr secondary;  // of a rank that stopped because another one did
  std::string text;
  int exit_code = static_cast<int>(ExitCode::internal);
};

std::string describe(const std::exception_ptr& error, int& exit_code) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    exit_code = static_cast<int>(e.code());
    return e.what();
  } catch (const std::bad_alloc&) {
    exit_code = static_cast<int>(ExitCode::out_of_memory);
    return "out of memory";
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an unknown error";
  }
}

// Adds the place where a rank's own error happened, except during start-up, where all ranks do the
// same.
std::exception_ptr with_place(const std::exception_ptr& error, const RankMonitor& monitor) {
  if (monitor.status().section.load() == static_cast<uint32_t>(Section::init)) return error;
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return std::make_exception_ptr(
        Error(e.code(), fmt::format("{}: {}", monitor.who(), e.what()), e.hint()));
  } catch (...) {
    return error;
  }
}

void rank_main(int rank, const std::shared_ptr<Job>& job, const std::shared_ptr<Group>& world,
               const std::shared_ptr<RankMonitor>& monitor, const std::function<void(Comm&)>& body,
               Outcome& outcome) {
  std::exception_ptr error;
  bool secondary = false;
  try {
    ThreadComm comm("world", monitor, world, rank);
    body(comm);
  } catch (const PeerStopped&) {
    error = std::current_exception();
    secondary = true;
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(outcome.mutex);
  if (error && secondary) {
    if (!outcome.secondary) outcome.secondary = error;
    job->stop(fmt::format("rank {} stopped", rank));
  } else if (error) {
    int code = static_cast<int>(ExitCode::internal);
    const std::string text = describe(error, code);
    job->stop(fmt::format("rank {} failed: {}", rank, text));
    if (!outcome.first) {
      outcome.first = with_place(error, *monitor);
      outcome.text = fmt::format("rank {}: {}", rank, text);
      outcome.exit_code = code;
    }
  }
  job->left[static_cast<size_t>(rank)].store(true);
  monitor->enter(Section::done);
  --outcome.running;
  outcome.changed.notify_all();
}

void wait_for_ranks(const Job& job, Outcome& outcome, double grace_seconds) {
  std::unique_lock lock(outcome.mutex);
  const auto finished = [&] { return outcome.running == 0; };
  while (!finished() && !job.stopped.load()) {
    outcome.changed.wait_for(lock, std::chrono::milliseconds(100));
  }
  if (outcome.changed.wait_for(lock, std::chrono::duration<double>(grace_seconds), finished)) {
    return;
  }
  const std::string text = outcome.text.empty() ? job.why() : outcome.text;
  fmt::print(stderr, "stretto: {}\n  {} other ranks did not stop within {} s: ending the process\n",
             printable_lines(text), outcome.running, grace_seconds);
  std::fflush(nullptr);
  std::_Exit(outcome.exit_code);
}

// For a start in which no thread could be made for the ranks from `rank` on.
void give_up_start(int rank, int n, const Error& error, Job& job, Outcome& outcome) {
  const std::lock_guard lock(outcome.mutex);
  outcome.first = std::make_exception_ptr(error);
  outcome.text = error.what();
  outcome.exit_code = static_cast<int>(error.code());
  outcome.running -= n - rank;
  job.stop(error.what());
}

}  // namespace

void run_thread_ranks(int n, const std::function<void(Comm&)>& body, double grace_seconds) {
  STRETTO_CHECK(n >= 1, "{} ranks", n);
  const auto job = std::make_shared<Job>(n);
  std::vector<int> everyone;
  for (int r = 0; r < n; ++r) everyone.push_back(r);
  const auto world = std::make_shared<Group>(job, "world", everyone);
  const StatusBoard board = StatusBoard::in_process(n);
  Outcome outcome;
  outcome.running = n;
  std::vector<std::thread> ranks;
  for (int r = 0; r < n; ++r) {
    auto monitor = std::make_shared<RankMonitor>(board, r, r);
    try {
      ranks.push_back(start_thread<std::thread>(
          fmt::format("rank {} of {}", r, n),
          [&, r, monitor] { rank_main(r, job, world, monitor, body, outcome); }));
    } catch (const Error& error) {
      give_up_start(r, n, error, *job, outcome);
      break;
    }
  }
  wait_for_ranks(*job, outcome, grace_seconds);
  for (std::thread& thread : ranks) thread.join();
  if (outcome.first) std::rethrow_exception(outcome.first);
  if (outcome.secondary) std::rethrow_exception(outcome.secondary);
}

}  // namespace stretto
