// NCCL is opened at run time: a program built with it starts on machines that lack it.
#pragma once

#include <nccl.h>

#include <string>

namespace stretto::nccl {

// The functions we use.
struct Library {
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRank) init_rank = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) recv = nullptr;
};

// Why `name` cannot be used; empty where it can. Fills `library` then.
std::string load(Library& library, const char* name);

std::string why_missing();  // empty: NCCL is there
const Library& library();   // only where why_missing() is empty
void check(ncclResult_t result, const char* what, ncclComm_t comm = nullptr);

}  // namespace stretto::nccl
