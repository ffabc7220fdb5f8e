#include "parallel/nccl_comm.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "parallel/device_comm.h"
#include "parallel/nccl_channel.h"
#include "parallel/nccl_library.h"
#include "parallel/ordered_sum.h"

namespace stretto {
namespace {

using cuda::CudaBackend;
using nccl::abort_all;
using nccl::Channel;
using nccl::check;
using nccl::Waits;

CudaBackend& cuda_of(Backend& backend) {
  auto* gpu = dynamic_cast<CudaBackend*>(&backend);
  STRETTO_CHECK(gpu != nullptr, "NCCL for backend {}", backend.name());
  return *gpu;
}

ncclDataType_t type_of(DType type) {
  switch (type) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::i32:
      return ncclInt32;
    default:
      STRETTO_CHECK(false, "a sum of {} over NCCL", dtype_name(type));
  }
}

ncclUniqueId shared_id(Comm& host, int root) {
  ncclUniqueId id{};
  if (host.rank() == root) check(nccl::library().get_unique_id(&id), "a new communicator");
  host.broadcast(Tensor(&id, DType::u8, {static_cast<int64_t>(sizeof(id))}), root);
  return id;
}

class NcclRequest : public Request {
 public:
  NcclRequest(Channel& channel, uint64_t event) : channel_(channel), event_(event) {}
  void wait() override { channel_.wait(event_); }
  bool done() override { return channel_.done(event_); }

 private:
  Channel& channel_;
  uint64_t event_;
};

// Device memory that is kept for the next call.
class ScratchPool {
 public:
  Buffer take(Backend& backend, size_t bytes) {
    Buffer* best = nullptr;  // the smallest: large ones are for large sums
    for (Buffer& buffer : free_) {
      const bool fits = buffer.bytes() >= bytes;
      if (fits && (best == nullptr || buffer.bytes() < best->bytes())) best = &buffer;
    }
    if (best == nullptr) return backend.allocate(bytes, "sums in rank order");
    Buffer found = std::move(*best);
    if (best != &free_.back()) *best = std::move(free_.back());
    free_.pop_back();
    return found;
  }
  void give(Buffer buffer) { free_.push_back(std::move(buffer)); }

 private:
  std::vector<Buffer> free_;
};

// The parts of all ranks are here when the event comes; wait() adds them up.
class OrderedSum final : public NcclRequest {
 public:
  OrderedSum(Channel& channel, uint64_t event, Backend& backend, ScratchPool& pool, Tensor out,
             std::vector<ConstTensor> parts, Buffer buffer, void* scratch)
      : NcclRequest(channel, event),
        backend_(backend),
        pool_(pool),
        out_(out),
        parts_(std::move(parts)),
        buffer_(std::move(buffer)),
        scratch_(scratch) {}

  void wait() override {
    NcclRequest::wait();
    add_in_order(backend_, out_, parts_, scratch_);
    pool_.give(std::move(buffer_));
  }

 private:
  Backend& backend_;
  ScratchPool& pool_;
  Tensor out_;
  std::vector<ConstTensor> parts_;
  Buffer buffer_;
  void* scratch_;
};

class NcclComm final : public Comm {
 public:
  // `owned`: a part made by split(); it lives here.
  NcclComm(Comm& host, Backend& backend, bool ring, std::unique_ptr<Comm> owned = nullptr)
      : Comm(host.name(), {std::shared_ptr<void>(), &host.monitor()}),
        owned_(std::move(owned)),
        host_(host),
        backend_(backend),
        staged_(make_device_comm(host, backend)),
        all_(cuda_of(backend), shared_id(host, 0), host.size(), host.rank(), waits()) {
    if (!ring || size() == 1) return;
    try {
      connect_ring();
    } catch (...) {
      let_go();
      throw;
    }
  }
  // To destroy a communicator may wait for the peer: both take links away in the same order.
  ~NcclComm() override {
    if (std::uncaught_exceptions() > exceptions_) {
      let_go();
      return;
    }
    for_each_link([&](int kind, int from, int to) {
      if (rank() == from) out_[kind].reset();
      if (rank() == to) in_[kind].reset();
    });
  }

  void release(std::vector<ncclComm_t>& comms) {
    for (auto* links : {out_, in_}) {
      for (int parity = 0; parity < 2; ++parity) {
        if (links[parity]) add_to(comms, *links[parity]);
      }
    }
    add_to(comms, all_);
  }

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  const char* transport() const override { return "nccl"; }
  bool waits_on_device() const override { return true; }
  void abort(int exit_code, const std::string& message) override {
    host_.abort(exit_code, message);
  }

 protected:
  RequestPtr do_all_reduce(Tensor t, ReduceOp op) override {
    if (t.count() == 0) return nullptr;
    return started("all_reduce", [&](ncclComm_t comm, cudaStream_t stream) {
      return nccl::library().all_reduce(t.data(), t.data(), size_of(t), type_of(t.dtype()),
                                        op == ReduceOp::sum ? ncclSum : ncclMax, comm, stream);
    });
  }

  RequestPtr do_reduce_scatter(Tensor out, ConstTensor in, Accumulate add) override {
    if (out.count() == 0) return nullptr;
    if (add == Accumulate::yes) return ordered_sum(out, in);
    return started("reduce_scatter", [&](ncclComm_t comm, cudaStream_t stream) {
      return nccl::library().reduce_scatter(in.data(), out.data(), size_of(out),
                                            type_of(out.dtype()), ncclSum, comm, stream);
    });
  }

  RequestPtr do_all_gather(Tensor out, ConstTensor in) override {
    if (in.count() == 0) return nullptr;
    return started("all_gather", [&](ncclComm_t comm, cudaStream_t stream) {
      return nccl::library().all_gather(in.data(), out.data(), in.bytes(), ncclUint8, comm, stream);
    });
  }

  RequestPtr do_broadcast(Tensor t, int root) override {
    if (t.count() == 0) return nullptr;
    return started("broadcast", [&](ncclComm_t comm, cudaStream_t stream) {
      return nccl::library().broadcast(t.data(), t.data(), t.bytes(), ncclUint8, root, comm,
                                       stream);
    });
  }

  RequestPtr do_send(ConstTensor t, int to, int tag) override {
    Channel* link = out_[tag & 1].get();
    if (link == nullptr || to != neighbour(rank(), tag)) return staged_->start_send(t, to, tag);
    if (t.count() == 0) return nullptr;
    const uint64_t event = link->run("send", [&](ncclComm_t comm, cudaStream_t stream) {
      return nccl::library().send(t.data(), t.bytes(), ncclUint8, 1, comm, stream);
    });
    return std::make_unique<NcclRequest>(*link, event);
  }

  RequestPtr do_recv(Tensor t, int from, int tag) override {
    Channel* link = in_[tag & 1].get();
    if (link == nullptr || rank() != neighbour(from, tag)) return staged_->start_recv(t, from, tag);
    if (t.count() == 0) return nullptr;
    const uint64_t event = link->run("receive", [&](ncclComm_t comm, cudaStream_t stream) {
      return nccl::library().recv(t.data(), t.bytes(), ncclUint8, 0, comm, stream);
    });
    return std::make_unique<NcclRequest>(*link, event);
  }

  RequestPtr do_barrier() override {
    host_.barrier();
    return nullptr;
  }

  std::unique_ptr<Comm> do_split(int colour, int key, const std::string& name) override {
    std::unique_ptr<Comm> part = host_.split(colour, key, name);
    if (!part) return nullptr;
    Comm& host = *part;
    return std::make_unique<NcclComm>(host, backend_, false, std::move(part));
  }

 private:
  void let_go() {
    std::vector<ncclComm_t> all;
    release(all);
    abort_all(all);
  }
  Waits waits() { return {lane(), waited()}; }
  static size_t size_of(ConstTensor t) { return static_cast<size_t>(t.count()); }

  template <typename Call>
  RequestPtr started(const char* what, Call&& call) {
    return std::make_unique<NcclRequest>(all_, all_.run(what, std::forward<Call>(call)));
  }

  // Even tags travel up the ring, odd ones down.
  int neighbour(int from, int tag) const {
    return (from + ((tag & 1) == 0 ? 1 : size() - 1)) % size();
  }

  static void add_to(std::vector<ncclComm_t>& comms, Channel& channel) {
    if (ncclComm_t comm = channel.release(); comm != nullptr) comms.push_back(comm);
  }

  template <typename Work>
  void for_each_link(Work&& work) const {
    for (int kind = 0; kind < 2; ++kind) {
      for (int from = 0; from < size(); ++from) work(kind, from, neighbour(from, kind));
    }
  }

  // A communicator and a stream for each direction of each link: a message that waits for its
  // receiver holds up nothing but later ones of its own kind, else rings could stand still.
  void connect_ring() {
    auto& gpu = cuda_of(backend_);
    for_each_link([&](int kind, int from, int to) {
      const ncclUniqueId id = shared_id(host_, from);
      if (rank() == from) out_[kind] = std::make_unique<Channel>(gpu, id, 2, 0, waits());
      if (rank() == to) in_[kind] = std::make_unique<Channel>(gpu, id, 2, 1, waits());
    });
  }

  RequestPtr ordered_sum(Tensor out, ConstTensor in) {
    const DType type = out.dtype();
    const size_t part = arena_round(out.bytes());
    const size_t gathered = part * static_cast<size_t>(size() - 1);
    Buffer buffer = pool_.take(
        backend_, std::max<size_t>(1, gathered + ordered_sum_scratch(type, out.count())));
    auto* base = static_cast<char*>(buffer.data());
    std::vector<ConstTensor> parts;
    char* next = base;
    for (int r = 0; r < size(); ++r) {
      const bool own = r == rank();
      parts.push_back(own ? slice(in, r, out.count()) : ConstTensor(next, type, out.shape()));
      if (!own) next += part;
    }
    const uint64_t event = all_.run("reduce_scatter", [&](ncclComm_t comm, cudaStream_t stream) {
      const nccl::Library& n = nccl::library();
      check(n.group_start(), "reduce_scatter", comm);
      ncclResult_t first_bad = ncclSuccess;  // a group that was begun must end
      const auto note = [&](ncclResult_t result) {
        if (first_bad == ncclSuccess) first_bad = result;
      };
      for (int r = 0; r < size(); ++r) {
        if (r == rank()) continue;
        const ConstTensor there = slice(in, r, out.count());
        void* here = const_cast<void*>(parts[static_cast<size_t>(r)].data());
        note(n.send(there.data(), there.bytes(), ncclUint8, r, comm, stream));
        note(n.recv(here, out.bytes(), ncclUint8, r, comm, stream));
      }
      note(n.group_end());
      return first_bad;
    });
    return std::make_unique<OrderedSum>(all_, event, backend_, pool_, out, std::move(parts),
                                        std::move(buffer), base + gathered);
  }

  static ConstTensor slice(ConstTensor in, int r, int64_t count) {
    return in.view({in.count()}).slice(count * r, count * (r + 1));
  }

  std::unique_ptr<Comm> owned_;
  Comm& host_;
  Backend& backend_;
  std::unique_ptr<Comm> staged_;  // messages that are not the ring's
  ScratchPool pool_;
  Channel all_;
  std::unique_ptr<Channel> out_[2], in_[2];  // by parity of the tag
  int exceptions_ = std::uncaught_exceptions();
};

// What each rank says of itself.
struct Card {
  char uuid[16];  // the GPU's own number, unique over machines
  char why[112];  // NCCL cannot be opened
};

std::vector<Card> gather_cards(Comm& world, Backend& backend) {
  Card mine{};
  std::memcpy(mine.uuid, cuda_of(backend).properties().uuid.bytes, sizeof(mine.uuid));
  const std::string why = nccl::why_missing();
  std::strncpy(mine.why, why.c_str(), sizeof(mine.why) - 1);
  std::vector<Card> all(static_cast<size_t>(world.size()));
  const auto bytes = static_cast<int64_t>(sizeof(Card));
  world.all_gather(Tensor(all.data(), DType::u8, {bytes * world.size()}),
                   ConstTensor(&mine, DType::u8, {bytes}));
  return all;
}

}  // namespace

bool wants_nccl(Comm& world, Backend& backend, NcclUse use) {
  if (world.size() == 1 && use == NcclUse::automatic) return false;
  const std::vector<Card> cards = gather_cards(world, backend);
  for (size_t a = 0; a < cards.size(); ++a) {
    for (size_t b = a + 1; b < cards.size(); ++b) {
      if (std::memcmp(cards[a].uuid, cards[b].uuid, sizeof(Card::uuid)) != 0) continue;
      if (use == NcclUse::automatic) return false;
      throw Error(
          ExitCode::bad_config,
          fmt::format("NCCL needs a GPU for each rank, but ranks {} and {} share one", a, b),
          "parallel.gpu_transport=auto goes through host memory then; or start fewer ranks");
    }
  }
  for (size_t r = 0; r < cards.size(); ++r) {
    if (cards[r].why[0] == '\0') continue;
    throw Error(ExitCode::os_error, fmt::format("rank {} cannot open NCCL: {}", r, cards[r].why),
                "install it (libnccl2) or set LD_LIBRARY_PATH; parallel.gpu_transport=host goes "
                "through host memory instead");
  }
  return true;
}

void let_go_of_nccl(std::span<Comm* const> comms) {
  std::vector<ncclComm_t> all;
  for (Comm* comm : comms) {
    if (auto* own = dynamic_cast<NcclComm*>(comm)) own->release(all);
  }
  abort_all(all);
}

std::unique_ptr<Comm> make_nccl_comm(Comm& host, Backend& backend, bool ring) {
  return std::make_unique<NcclComm>(host, backend, ring);
}

}  // namespace stretto
