#include "parallel/nccl_library.h"

#include <dlfcn.h>

#include "backend/cuda/cuda_check.h"
#include "base/error.h"

namespace stretto::nccl {
namespace {

struct Opened {
  Library library;
  std::string why;
};

const Opened& opened() {
  static const Opened one = [] {
    Opened o;
    o.why = load(o.library, "libnccl.so.2");
    return o;
  }();
  return one;
}

}  // namespace

std::string load(Library& library, const char* name) {
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return dlerror();
  std::string lacking;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
    if (function == nullptr && lacking.empty()) {
      lacking = fmt::format("{} has no {}: too old", name, symbol);
    }
  };
  find(library.get_unique_id, "ncclGetUniqueId");
  find(library.init_rank, "ncclCommInitRank");
  find(library.destroy, "ncclCommDestroy");
  find(library.abort, "ncclCommAbort");
  find(library.async_error, "ncclCommGetAsyncError");
  find(library.error_string, "ncclGetErrorString");
  find(library.last_error, "ncclGetLastError");
  find(library.group_start, "ncclGroupStart");
  find(library.group_end, "ncclGroupEnd");
  find(library.all_reduce, "ncclAllReduce");
  find(library.reduce_scatter, "ncclReduceScatter");
  find(library.all_gather, "ncclAllGather");
  find(library.broadcast, "ncclBroadcast");
  find(library.send, "ncclSend");
  find(library.recv, "ncclRecv");
  return lacking;
}

std::string why_missing() { return opened().why; }

const Library& library() {
  STRETTO_CHECK(opened().why.empty(), "NCCL: {}", opened().why);
  return opened().library;
}

void check(ncclResult_t result, const char* what, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  if (result == ncclUnhandledCudaError) throw_if_gpu_failed(what, __FILE__, __LINE__);
  const bool refused = result == ncclInvalidUsage || result == ncclInvalidArgument;
  const bool lost = result == ncclRemoteError || result == ncclSystemError;
  throw Error(lost ? ExitCode::peer_lost : ExitCode::os_error,
              fmt::format("NCCL: {} failed: {} ({})", what, library().error_string(result),
                          library().last_error(comm)),
              lost ? "another rank or the network failed; run again to resume from the last "
                     "checkpoint (NCCL_DEBUG=INFO says more)"
              : refused
                  ? "parallel.gpu_transport=host goes through host memory instead"
                  : "NCCL_DEBUG=INFO says more; parallel.gpu_transport=host goes through host "
                    "memory instead");
}

}  // namespace stretto::nccl
