#include "parallel/nccl_library.h"

#include "backend/cuda/cuda_check.h"
#include "base/dynamic_library.h"
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
  DynamicLibrary opened(name);
  opened.find(library.get_unique_id, "ncclGetUniqueId");
  opened.find(library.init_rank, "ncclCommInitRank");
  opened.find(library.destroy, "ncclCommDestroy");
  opened.find(library.abort, "ncclCommAbort");
  opened.find(library.async_error, "ncclCommGetAsyncError");
  opened.find(library.error_string, "ncclGetErrorString");
  opened.find(library.last_error, "ncclGetLastError");
  opened.find(library.group_start, "ncclGroupStart");
  opened.find(library.group_end, "ncclGroupEnd");
  opened.find(library.all_reduce, "ncclAllReduce");
  opened.find(library.reduce_scatter, "ncclReduceScatter");
  opened.find(library.all_gather, "ncclAllGather");
  opened.find(library.broadcast, "ncclBroadcast");
  opened.find(library.send, "ncclSend");
  opened.find(library.recv, "ncclRecv");
  return opened.why_unusable();
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
