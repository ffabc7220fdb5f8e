// MPI moves the bytes. Sums are our own, in rank order (comm.h says why), so results do not depend
// on the MPI library, its version or the algorithms that it chooses.
#include "comm/mpi.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#include "base/ceil_div.h"
#include "base/start_thread.h"
#include "comm/abort.h"
#include "comm/launch.h"
#include "comm/mpi_op.h"
#include "comm/mpi_pieces.h"
#include "comm/reduce.h"

namespace stretto {
namespace {

using mpi::check;
using mpi::MpiOp;
using mpi::Process;

// Up to this size one exchange of everything is faster than two stages.
constexpr size_t kSmallBytes = 16 << 10;
// Larger sums are taken in pieces; of each piece a rank adds up a slice of this size.
constexpr int64_t kSliceBytes = 256 << 10;
constexpr uint64_t kTags = 8192;  // numbers for sums in flight; MPI promises tags up to 32767

MPI_Datatype unit_of(DType type) {
  switch (dtype_size(type)) {
    case 1:
      return MPI_UINT8_T;
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    default:
      return MPI_UINT64_T;
  }
}

int count_of(int64_t count) {
  STRETTO_CHECK(count <= INT_MAX, "{} elements in one call; use smaller buckets", count);
  return static_cast<int>(count);
}

class MpiComm final : public Comm {
 public:
  MpiComm(const std::string& name, std::shared_ptr<RankMonitor> monitor,
          std::shared_ptr<Process> process, MPI_Comm comm)
      : Comm(name, std::move(monitor)), process_(std::move(process)), comm_(comm) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    check(MPI_Comm_dup(comm_, &sums_), "duplication of a communicator");
    MPI_Comm_set_errhandler(sums_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }

  ~MpiComm() override {
    // The peers will not free theirs.
    if (std::uncaught_exceptions() > process_->exceptions) return;
    MPI_Comm_free(&sums_);
    MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* transport() const override { return "mpi"; }

  void abort(int exit_code, const std::string& message) override {
    report_before_exit(monitor().board(), exit_code, message);
    // The watchdog's thread may not be allowed to call MPI; then the launcher ends the other ranks.
    if (process_->any_thread_may_call) MPI_Abort(MPI_COMM_WORLD, exit_code);
    ::_exit(exit_code);
  }

 protected:
  RequestPtr do_all_reduce(Tensor t, ReduceOp op) override {
    if (size_ == 1 || t.count() == 0) return nullptr;
    const int64_t piece = slice_elements(t.dtype()) * size_;
    if (t.count() > piece) {
      const uint64_t first = take_tags(ceil_div(t.count(), piece));
      return pieces_.add(ceil_div(t.count(), piece), [=, this](int64_t i) {
        const Tensor part = t.slice(i * piece, std::min(t.count(), (i + 1) * piece));
        return reduce_in_two_stages(part, op, tag_of(first + static_cast<uint64_t>(i)));
      });
    }
    if (t.bytes() <= kSmallBytes) return reduce_at_once(t, op);
    auto request = reduce_in_two_stages(t, op, tag_of(take_tags(1)));
    request->peers_need_next_stage();
    return request;
  }

  RequestPtr do_reduce_scatter(Tensor out, ConstTensor in, Accumulate add) override {
    if (out.count() == 0) return nullptr;
    const int64_t piece = slice_elements(in.dtype());
    if (out.count() <= piece) return scatter_piece(out, in, add, 0, tag_of(take_tags(1)));
    const int64_t pieces = ceil_div(out.count(), piece);
    const uint64_t first = take_tags(pieces);
    return pieces_.add(pieces, [=, this](int64_t i) {
      const Tensor part = out.slice(i * piece, std::min(out.count(), (i + 1) * piece));
      return scatter_piece(part, in, add, i * piece, tag_of(first + static_cast<uint64_t>(i)));
    });
  }

  RequestPtr do_all_gather(Tensor out, ConstTensor in) override {
    auto request = make_op();
    const bool in_place = at(out.data(), in.count() * rank_, out.dtype()) == in.data();
    check(MPI_Iallgather(in_place ? MPI_IN_PLACE : in.data(), count_of(in.count()),
                         unit_of(in.dtype()), out.data(), count_of(in.count()),
                         unit_of(out.dtype()), comm_, request->add()),
          "all_gather");
    return request;
  }

  RequestPtr do_broadcast(Tensor t, int root) override {
    auto request = make_op();
    check(
        MPI_Ibcast(t.data(), count_of(t.count()), unit_of(t.dtype()), root, comm_, request->add()),
        "broadcast");
    return request;
  }

  RequestPtr do_send(ConstTensor t, int to, int tag) override {
    auto request = make_op();
    check(MPI_Isend(t.data(), count_of(t.count()), unit_of(t.dtype()), to, tag, comm_,
                    request->add()),
          "send");
    return request;
  }

  RequestPtr do_recv(Tensor t, int from, int tag) override {
    auto request = make_op();
    check(MPI_Irecv(t.data(), count_of(t.count()), unit_of(t.dtype()), from, tag, comm_,
                    request->add()),
          "receive");
    return request;
  }

  RequestPtr do_barrier() override {
    auto request = make_op();
    check(MPI_Ibarrier(comm_, request->add()), "barrier");
    return request;
  }

  std::unique_ptr<Comm> do_split(int colour, int key, const std::string& name) override {
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, colour < 0 ? MPI_UNDEFINED : colour, key, &part), "split");
    if (part == MPI_COMM_NULL) return nullptr;
    return std::make_unique<MpiComm>(name, shared_monitor(), process_, part);
  }

 private:
  std::unique_ptr<MpiOp> make_op() { return std::make_unique<MpiOp>(process_); }

  // Messages of a sum carry its number as their tag, because a rank may be in the second stage of
  // one sum while a peer is in the first stage of the next. Calls are numbered in their order.
  uint64_t take_tags(int64_t count) {
    return std::exchange(sums_started_, sums_started_ + static_cast<uint64_t>(count));
  }
  static int tag_of(uint64_t number) { return static_cast<int>(2 * (number % kTags)); }
  static int64_t slice_elements(DType type) {
    return kSliceBytes / static_cast<int64_t>(dtype_size(type));
  }

  // Starts to send elements [begin_of(r), begin_of(r) + count) of `t` to each rank r, and to
  // receive as many from each. Returns where the contribution of each rank will be.
  template <typename Begin>
  std::vector<const void*> exchange(MpiOp& op, ConstTensor t, Begin begin_of, int64_t count,
                                    int tag) {
    const DType type = t.dtype();
    char* scratch = op.take_scratch(static_cast<size_t>(count * (size_ - 1)) * dtype_size(type));
    std::vector<const void*> parts(static_cast<size_t>(size_));
    parts[static_cast<size_t>(rank_)] = at(t.data(), begin_of(rank_), type);
    int64_t slot = 0;
    for (int k = 1; k < size_; ++k) {  // every rank begins with another peer
      const int from = (rank_ + k) % size_;
      void* to = at(static_cast<void*>(scratch), count * slot++, type);
      parts[static_cast<size_t>(from)] = to;
      check(MPI_Irecv(to, count_of(count), unit_of(type), from, tag, sums_, op.add()), "sum");
    }
    for (int k = 1; k < size_; ++k) {
      const int to = (rank_ + k) % size_;
      check(MPI_Isend(at(t.data(), begin_of(to), type), count_of(count), unit_of(type), to, tag,
                      sums_, op.add()),
            "sum");
    }
    return parts;
  }

  RequestPtr reduce_at_once(Tensor t, ReduceOp op) {
    auto request = make_op();
    std::vector<const void*> parts = exchange(
        *request, t, [](int) { return int64_t{0}; }, t.count(), tag_of(take_tags(1)));
    request->then([=](MpiOp&) {
      ordered_reduce(t.dtype(), op, t.data(), parts.data(), static_cast<int>(parts.size()),
                     t.count());
    });
    return request;
  }

  // Sums elements [begin, begin + out.count()) of this rank's part of `in` over all ranks.
  std::unique_ptr<MpiOp> scatter_piece(Tensor out, ConstTensor in, Accumulate add, int64_t begin,
                                       int tag) {
    auto request = make_op();
    const int64_t part = in.count() / size_;
    std::vector<const void*> parts = exchange(
        *request, in, [=](int r) { return part * r + begin; }, out.count(), tag);
    if (add == Accumulate::yes) parts.insert(parts.begin(), out.data());
    request->then([=](MpiOp&) {
      ordered_reduce(out.dtype(), ReduceOp::sum, out.data(), parts.data(),
                     static_cast<int>(parts.size()), out.count());
    });
    return request;
  }

  // Each rank sums one slice and sends the result to all. The last slices may be short or empty.
  std::unique_ptr<MpiOp> reduce_in_two_stages(Tensor t, ReduceOp op, int tag) {
    auto request = make_op();
    const int64_t slice = ceil_div(t.count(), size_);
    const auto slice_of = [=](int r) {
      return t.slice(std::min(slice * r, t.count()), std::min(slice * (r + 1), t.count()));
    };
    const Tensor own = slice_of(rank_);
    char* scratch = request->take_scratch(own.bytes() * static_cast<size_t>(size_ - 1));
    std::vector<const void*> parts(static_cast<size_t>(size_), own.data());
    for (int k = 1; k < size_; ++k) {
      const int peer = (rank_ + k) % size_;
      void* to = scratch + own.bytes() * static_cast<size_t>(k - 1);
      parts[static_cast<size_t>(peer)] = to;
      start_recv_slice(*request, {to, t.dtype(), own.shape()}, peer, tag);
      start_send_slice(*request, slice_of(peer), peer, tag);
    }
    request->then([=, this](MpiOp& self) {
      ordered_reduce(t.dtype(), op, own.data(), parts.data(), size_, own.count());
      for (int k = 1; k < size_; ++k) {
        const int peer = (rank_ + k) % size_;
        start_recv_slice(self, slice_of(peer), peer, tag + 1);
        start_send_slice(self, own, peer, tag + 1);
      }
    });
    return request;
  }

  void start_recv_slice(MpiOp& op, Tensor t, int from, int tag) {
    check(MPI_Irecv(t.data(), count_of(t.count()), unit_of(t.dtype()), from, tag, sums_, op.add()),
          "sum");
  }
  void start_send_slice(MpiOp& op, ConstTensor t, int to, int tag) {
    check(MPI_Isend(t.data(), count_of(t.count()), unit_of(t.dtype()), to, tag, sums_, op.add()),
          "sum");
  }

  std::shared_ptr<Process> process_;
  MPI_Comm comm_;                  // for MPI's own collectives and for send and recv
  MPI_Comm sums_ = MPI_COMM_NULL;  // for the messages of our sums
  int rank_ = 0;
  int size_ = 1;
  uint64_t sums_started_ = 0;
  mpi::PieceQueue pieces_{process_};
};

// The board in memory that all ranks of this machine map. It exists until the process ends.
StatusBoard machine_board(int& row) {
  MPI_Comm machine = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine),
        "split by machine");
  int ranks = 0;
  MPI_Comm_rank(machine, &row);
  MPI_Comm_size(machine, &ranks);
  const size_t bytes = sizeof(RankStatus) * static_cast<size_t>(ranks + 1);
  void* base = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  check(MPI_Win_allocate_shared(row == 0 ? static_cast<MPI_Aint>(bytes) : 0, 1, MPI_INFO_NULL,
                                machine, &base, &window),
        "shared memory");
  MPI_Aint size = 0;
  int unit = 0;
  check(MPI_Win_shared_query(window, 0, &size, &unit, &base), "shared memory");
  auto* rows = static_cast<RankStatus*>(base);
  if (row == 0) {
    for (int r = 0; r <= ranks; ++r) new (rows + r) RankStatus;
  }
  MPI_Barrier(machine);
  // The row after the last one holds the number of the rank that reports.
  return {nullptr, rows, ranks, &rows[ranks].section};
}

}  // namespace

bool mpi_built_in() { return true; }

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

std::unique_ptr<Comm> make_mpi_comm() {
  auto process = std::make_shared<Process>();
  MPI_Comm world = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &world), "duplication of the world");
  int rank = 0;
  MPI_Comm_rank(world, &rank);
  int row = 0;
  const StatusBoard board = machine_board(row);
  auto monitor = std::make_shared<RankMonitor>(board, row, rank);
  return std::make_unique<MpiComm>("world", std::move(monitor), std::move(process), world);
}

namespace {

// Ends this process if MPI has not started in time. There is no board yet that tells who is
// missing, and MPI must not be called; the launcher ends the other ranks. Higher ranks wait a
// little longer, so that usually only one message is printed.
void end_late_start(const std::stop_token& stop, double seconds) {
  const int rank = detect_launch().rank;
  const auto limit = std::chrono::duration<double>(seconds + 0.2 * std::min(rank, 5));
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any wake;
  if (wake.wait_for(lock, stop, limit, [&] { return stop.stop_requested(); })) return;
  fmt::print(
      stderr,
      "stretto: rank {}: MPI did not start within {:.3g} s: another rank is missing or "
      "stopped\n  fix: start the job again; a longer train.watchdog helps on a slow network\n",
      rank, seconds);
  std::fflush(nullptr);
  ::_exit(static_cast<int>(ExitCode::peer_lost));
}

}  // namespace

void run_mpi_ranks(const std::function<void(Comm&)>& body, double start_seconds) {
  std::jthread guard;
  if (start_seconds > 0) {
    guard = start_thread<std::jthread>(
        "the thread that ends a late start of MPI",
        [=](const std::stop_token& stop) { end_late_start(stop, start_seconds); });
  }
  const std::unique_ptr<Comm> world = make_mpi_comm();
  guard.request_stop();
  if (const LaunchInfo launch = detect_launch(); launch.size > 1 && world->size() == 1) {
    throw Error(ExitCode::os_error,
                fmt::format("{} started {} ranks, but {} sees only one", name_of(launch.launcher),
                            launch.size, mpi_version()),
                "start them with the mpirun that belongs to this MPI library");
  }
  const auto end = [&](ExitCode code, const std::string& text, const std::string& hint) {
    std::string message = fmt::format("{}: {}", std::as_const(world->monitor()).who(), text);
    if (!hint.empty()) message += fmt::format("\n  fix: {}", hint);
    world->abort(static_cast<int>(code), message);
  };
  try {
    body(*world);
  } catch (const Error& error) {
    end(error.code(), error.what(), error.hint());
  } catch (const std::bad_alloc&) {
    end(ExitCode::out_of_memory, "out of memory", "use a smaller batch or model");
  } catch (const std::exception& error) {
    end(ExitCode::internal, error.what(), "");
  }
  world->monitor().enter(Section::done);
}

}  // namespace stretto
