// A stand-in for NCCL whose ranks are threads of one process and may share a GPU, which NCCL
// refuses: with it in the library path, one card runs the paths between several ranks. Every call
// is done by way of host memory when it returns, sums are taken in rank order, and messages are
// kept until their receiver comes.
#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/reduce.h"

namespace {

using stretto::DType;
using Bytes = std::vector<char>;

struct World {
  explicit World(int n) : ranks(n), parts(static_cast<size_t>(n)) {}

  void barrier() {
    std::unique_lock lock(mutex);
    const int64_t turn = generation;
    if (++arrived == ranks) {
      arrived = 0;
      ++generation;
      wake.notify_all();
    } else {
      wake.wait(lock, [&] { return generation != turn; });
    }
  }

  int ranks;
  std::vector<Bytes> parts;  // what each rank brought to a collective
  std::map<std::pair<int, int>, std::deque<Bytes>> messages;
  std::mutex mutex;
  std::condition_variable wake;
  int arrived = 0;
  int64_t generation = 0;
};

std::mutex g_mutex;
std::map<std::string, std::weak_ptr<World>> g_worlds;

thread_local bool t_grouped = false;
thread_local std::vector<std::function<void()>> t_sends, t_receives;

void require(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "the stand-in for NCCL: %s\n", cudaGetErrorString(status));
  std::abort();
}

Bytes fetch(const void* device, size_t bytes, cudaStream_t stream) {
  Bytes host(bytes);
  require(cudaMemcpyAsync(host.data(), device, bytes, cudaMemcpyDeviceToHost, stream));
  require(cudaStreamSynchronize(stream));
  return host;
}

void deliver(void* device, const Bytes& host, cudaStream_t stream) {
  // Not by cudaMemcpy: it may return before the bytes are there, and other streams do not wait for
  // it.
  require(cudaMemcpyAsync(device, host.data(), host.size(), cudaMemcpyHostToDevice, stream));
  require(cudaStreamSynchronize(stream));
}

DType type_of(ncclDataType_t type) {
  return type == ncclFloat32    ? DType::f32
         : type == ncclFloat64  ? DType::f64
         : type == ncclBfloat16 ? DType::bf16
         : type == ncclFloat16  ? DType::f16
         : type == ncclInt32    ? DType::i32
                                : DType::u8;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank;

  // All parts are there, and stay until every rank has read them.
  template <typename Read>
  void together(Bytes mine, Read&& read) {
    world->parts[static_cast<size_t>(rank)] = std::move(mine);
    world->barrier();
    read(world->parts);
    world->barrier();
  }

  // Elements [begin, begin + count) of the sum of all parts.
  Bytes sum(const std::vector<Bytes>& parts, size_t begin, size_t count, DType type,
            ncclRedOp_t op) const {
    const size_t size = stretto::dtype_size(type);
    Bytes out(count * size);
    std::vector<const void*> sources;
    for (const Bytes& part : parts) sources.push_back(part.data() + begin * size);
    stretto::ordered_reduce(type, op == ncclMax ? stretto::ReduceOp::max : stretto::ReduceOp::sum,
                            out.data(), sources.data(), world->ranks, static_cast<int64_t>(count));
    return out;
  }
};

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int64_t> next{1};
  std::memset(id, 0, sizeof(*id));
  const int64_t number = next++;
  std::memcpy(id->internal, &number, sizeof(number));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  std::shared_ptr<World> world;
  {
    const std::lock_guard lock(g_mutex);
    std::weak_ptr<World>& entry = g_worlds[std::string(id.internal, sizeof(id.internal))];
    world = entry.lock();
    if (!world) entry = world = std::make_shared<World>(ranks);
  }
  if (world->ranks != ranks || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  world->barrier();
  *comm = new ncclComm{world, rank};
  return ncclSuccess;
}

// As the real one within a machine: it waits for the peers.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  comm->world->barrier();
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = ncclSuccess;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "refused by the stand-in"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const DType t = type_of(type);
  comm->together(fetch(in, count * stretto::dtype_size(t), stream), [&](const auto& parts) {
    deliver(out, comm->sum(parts, 0, count, t, op), stream);
  });
  return ncclSuccess;
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const DType t = type_of(type);
  const size_t whole = count * static_cast<size_t>(comm->world->ranks) * stretto::dtype_size(t);
  comm->together(fetch(in, whole, stream), [&](const auto& parts) {
    deliver(out, comm->sum(parts, count * static_cast<size_t>(comm->rank), count, t, op), stream);
  });
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * stretto::dtype_size(type_of(type));
  comm->together(fetch(in, bytes, stream), [&](const auto& parts) {
    Bytes all;
    for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
    deliver(out, all, stream);
  });
  return ncclSuccess;
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * stretto::dtype_size(type_of(type));
  comm->together(fetch(in, bytes, stream), [&](const auto& parts) {
    deliver(out, parts[static_cast<size_t>(root)], stream);
  });
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream) {
  const size_t bytes = count * stretto::dtype_size(type_of(type));
  const auto send = [=] {
    Bytes message = fetch(in, bytes, stream);
    const std::lock_guard lock(comm->world->mutex);
    comm->world->messages[{comm->rank, to}].push_back(std::move(message));
    comm->world->wake.notify_all();
  };
  if (t_grouped) {
    t_sends.emplace_back(send);
  } else {
    send();
  }
  return ncclSuccess;
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream) {
  const size_t bytes = count * stretto::dtype_size(type_of(type));
  const auto receive = [=] {
    Bytes message;
    {
      std::unique_lock lock(comm->world->mutex);
      auto& queue = comm->world->messages[{from, comm->rank}];
      comm->world->wake.wait(lock, [&] { return !queue.empty(); });
      message = std::move(queue.front());
      queue.pop_front();
    }
    message.resize(bytes, 0x55);  // sizes that differ show in the values
    deliver(out, message, stream);
  };
  if (t_grouped) {
    t_receives.emplace_back(receive);
  } else {
    receive();
  }
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  t_grouped = true;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  t_grouped = false;
  for (const auto& send : std::exchange(t_sends, {})) send();
  for (const auto& receive : std::exchange(t_receives, {})) receive();
  return ncclSuccess;
}

}  // extern "C"
