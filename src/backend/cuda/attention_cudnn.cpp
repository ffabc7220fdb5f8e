// cuDNN is opened at run time: a program built with it starts on machines that lack it, and uses
// the next row of the attention table there.
//
// The softmax statistics of cuDNN are the natural log-sum-exp, (B, H, T): our own kernels can take
// over the backward pass of a forward pass done here.
#include "backend/cuda/attention_cudnn.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/cudnn_version.h"
#include "backend/cuda/lanes.h"
#include "base/log.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // read by the frontend headers
}

namespace stretto::cuda {
namespace {

namespace fe = cudnn_frontend;
using Attributes = fe::graph::Tensor_attributes;

enum Uid : int64_t { kQ = 1, kK, kV, kOut, kStats, kDOut, kDQ, kDK, kDV };
enum class Pass { forward, backward, backward_atomic };

bool load_library() {
  for (const char* name : {"libcudnn.so.9", "libcudnn.so"}) {
    if ((fe::cudnn_dlhandle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
  }
  if (fe::cudnn_dlhandle == nullptr) {
    spdlog::info("cuda: cuDNN was not found ({}); own attention kernels are used", dlerror());
    return false;
  }
  const std::string refusal = cudnn_refusal(fe::detail::get_backend_version());
  if (refusal.empty()) return true;
  spdlog::info("cuda: {}; own attention kernels are used", refusal);
  return false;
}

bool library_ready() {
  static const bool ready = load_library();
  return ready;
}

// Ranks may be threads: one of them speaks.
void warn_once_of_start(cudnnStatus_t status) {
  static std::once_flag said;
  std::call_once(said, [&] {
    spdlog::warn(
        "cuda: cuDNN {} could not be started on the GPU ({}); own attention kernels are "
        "used, which are slower for some shapes; check that it fits the CUDA driver",
        cudnn_version_text(fe::detail::get_backend_version()),
        fe::detail::get_error_string(status));
  });
}

using Operands = std::unordered_map<int64_t, void*>;

struct Plan {
  std::shared_ptr<fe::graph::Graph> graph;  // null: cuDNN cannot do this
  size_t workspace_bytes = 0;
};

// One per rank thread: handles and graphs are used by the thread and device that made them.
class Library {
 public:
  // What a GPU that stopped working holds is left behind: cuDNN would note the failure in a list of
  // this thread's that is gone by now, and end the program by that.
  ~Library() {
    if (cudaDeviceSynchronize() != cudaSuccess) {
      static_cast<void>(new auto(std::move(plans_)));
      return;
    }
    for (auto& [device, handle] : handles_) {
      if (handle != nullptr) fe::detail::destroy_handle(handle);
    }
  }

  // Null where cuDNN cannot be started on the GPU; that is tried once.
  cudnnHandle_t handle() {
    int device = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    const auto [entry, fresh] = handles_.try_emplace(device, nullptr);
    if (!fresh) return entry->second;
    const cudnnStatus_t status = fe::detail::create_handle(&entry->second);
    if (status == CUDNN_STATUS_SUCCESS) return entry->second;
    entry->second = nullptr;
    throw_if_gpu_failed("cudnnCreate", __FILE__, __LINE__);
    cudaGetLastError();  // what cuDNN met must not be taken for a failure of the next kernel
    warn_once_of_start(status);
    return nullptr;
  }

  Plan& plan(Pass pass, const AttentionGeometry& g) {
    const auto key = std::make_tuple(handle(), pass, g.type, g.B, g.T, g.H, g.D);
    const auto [entry, fresh] = plans_.try_emplace(key);
    if (fresh && handle() != nullptr) entry->second = build(pass, g);
    return entry->second;
  }

 private:
  Plan build(Pass pass, const AttentionGeometry& g);

  std::map<int, cudnnHandle_t> handles_;
  std::map<std::tuple<cudnnHandle_t, Pass, DType, int64_t, int64_t, int64_t, int64_t>, Plan> plans_;
};

Library& library() {
  thread_local Library instance;
  return instance;
}

// Operands as cuDNN sees them: (B, H, T, D), strides into packed qkv or into (B, T, H, D).
Attributes head_rows(const AttentionGeometry& g, Uid uid, int64_t row) {
  return Attributes()
      .set_dim({g.B, g.H, g.T, g.D})
      .set_stride({g.T * row, g.D, row, 1})
      .set_uid(uid);
}

Attributes row_statistics(const AttentionGeometry& g) {
  return Attributes()
      .set_dim({g.B, g.H, g.T, 1})
      .set_stride({g.H * g.T, g.T, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT)
      .set_uid(kStats);
}

void make_output(const std::shared_ptr<Attributes>& tensor, const AttentionGeometry& g, Uid uid,
                 int64_t row) {
  tensor->set_output(true)
      .set_dim({g.B, g.H, g.T, g.D})
      .set_stride({g.T * row, g.D, row, 1})
      .set_uid(uid);
}

Plan Library::build(Pass pass, const AttentionGeometry& g) {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(g.type == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const int64_t packed = 3 * g.H * g.D, dense = g.H * g.D;
  auto q = graph->tensor(head_rows(g, kQ, packed));
  auto k = graph->tensor(head_rows(g, kK, packed));
  auto v = graph->tensor(head_rows(g, kV, packed));
  if (pass == Pass::forward) {
    auto [out, stats] = graph->sdpa(q, k, v,
                                    fe::graph::SDPA_attributes()
                                        .set_name("attention")
                                        .set_generate_stats(true)
                                        .set_causal_mask(true)
                                        .set_attn_scale(attention_scale(g)));
    make_output(out, g, kOut, dense);
    stats->set_output(true)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim({g.B, g.H, g.T, 1})
        .set_stride({g.H * g.T, g.T, 1, 1})
        .set_uid(kStats);
  } else {
    auto out = graph->tensor(head_rows(g, kOut, dense));
    auto dout = graph->tensor(head_rows(g, kDOut, dense));
    auto stats = graph->tensor(row_statistics(g));
    auto [dq, dk, dv] =
        graph->sdpa_backward(q, k, v, out, dout, stats,
                             fe::graph::SDPA_backward_attributes()
                                 .set_name("attention_backward")
                                 .set_causal_mask(true)
                                 .set_attn_scale(attention_scale(g))
                                 .set_deterministic_algorithm(pass != Pass::backward_atomic));
    make_output(dq, g, kDQ, packed);
    make_output(dk, g, kDK, packed);
    make_output(dv, g, kDV, packed);
  }
  auto status = graph->validate();
  if (status.is_good()) status = graph->build_operation_graph(handle());
  // The first plan that can be built: others, where there are any, were never faster.
  if (status.is_good()) status = graph->create_execution_plans({fe::HeurMode_t::A});
  if (status.is_good()) status = graph->check_support(handle());
  if (status.is_good()) status = graph->build_plans(handle());
  if (!status.is_good()) {
    spdlog::info("cuda: cuDNN has no attention for B {} T {} H {} D {} ({}); own kernels are used",
                 g.B, g.T, g.H, g.D, status.get_message());
    return {};
  }
  return {graph, static_cast<size_t>(graph->get_workspace_size())};
}

void execute(Pass pass, const AttentionGeometry& g, Operands& operands, Workspace& scratch,
             cudaStream_t stream) {
  const Plan& plan = library().plan(pass, g);
  cudnnHandle_t handle = library().handle();
  fe::detail::set_stream(handle, stream);
  void* workspace = scratch.reserve(plan.workspace_bytes, stream);
  auto status = plan.graph->execute(handle, operands, workspace);
  if (status.is_good()) return;
  throw_if_gpu_failed("cuDNN attention", __FILE__, __LINE__);
  throw Error(ExitCode::internal, fmt::format("cuDNN attention failed: {}", status.get_message()),
              "set the environment variable STRETTO_CUDA_ATTENTION=flash");
}

// The three parts of packed (B, T, 3, H, D) rows.
void* part(const void* qkv, const AttentionGeometry& g, int64_t which) {
  return static_cast<char*>(const_cast<void*>(qkv)) +
         static_cast<size_t>(which * g.H * g.D) * dtype_size(g.type);
}

void backward(Pass pass, const AttentionBackward& call, Workspace& scratch, cudaStream_t stream) {
  const AttentionGeometry& g = call.shape;
  if (library().plan(pass, g).graph == nullptr) return flash_backward(call, scratch, stream);
  Operands operands = {
      {kQ, part(call.qkv, g, 0)},
      {kK, part(call.qkv, g, 1)},
      {kV, part(call.qkv, g, 2)},
      {kOut, const_cast<void*>(call.out)},
      {kDOut, const_cast<void*>(call.dout)},
      {kStats, const_cast<float*>(call.lse)},
      {kDQ, part(call.dqkv, g, 0)},
      {kDK, part(call.dqkv, g, 1)},
      {kDV, part(call.dqkv, g, 2)},
  };
  execute(pass, g, operands, scratch, stream);
}

}  // namespace

bool cudnn_supports(const AttentionGeometry& g) {
  return flash_supports(g) && !g.alibi && library_ready() &&
         library().plan(Pass::forward, g).graph != nullptr;
}

void cudnn_forward(const AttentionForward& call, Workspace& scratch, cudaStream_t stream) {
  const AttentionGeometry& g = call.shape;
  Operands operands = {
      {kQ, part(call.qkv, g, 0)}, {kK, part(call.qkv, g, 1)}, {kV, part(call.qkv, g, 2)},
      {kOut, call.out},           {kStats, call.lse},
  };
  execute(Pass::forward, g, operands, scratch, stream);
}

void cudnn_backward(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream) {
  backward(Pass::backward, call, scratch, stream);
}

void cudnn_atomic_backward(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream) {
  backward(Pass::backward_atomic, call, scratch, stream);
}

}  // namespace stretto::cuda
