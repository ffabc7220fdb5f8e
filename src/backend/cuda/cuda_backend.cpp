#include "backend/cuda/cuda_backend.h"

#include <nvtx3/nvToolsExt.h>

#include "backend/cuda/cuda_check.h"
#include "base/units.h"

namespace stretto::cuda {
namespace {

// Makes `device` current before any member is built: streams and memory belong to it.
int open_device(int device, const CudaOptions& options) {
  if (options.one_of_several) drive_several_gpus();
  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  if (device < 0 || device >= count) {
    throw Error(ExitCode::bad_config,
                fmt::format("GPU {} was asked for, but {} can be seen", device, count),
                "ranks beyond the number of GPUs of a machine must share them; check "
                "CUDA_VISIBLE_DEVICES");
  }
  CUDA_CHECK(cudaSetDevice(device));
  return device;
}

cudaDeviceProp read_properties(int device) {
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  require_supported(properties);
  return properties;
}

}  // namespace

CudaBackend::CudaBackend(int device, const CudaOptions& options)
    : device_(open_device(device, options)),
      properties_(read_properties(device)),
      gemm_(properties_.name, options, stream()),
      attention_(attention_kernel(options.attention)),
      repeatable_(options.repeatable),
      timing_(options.time_operators),
      use_graphs_(options.graphs) {
  scratch_.reserve(options.scratch_bytes, stream());
}

CudaBackend::~CudaBackend() {
  cudaSetDevice(device_);
  if (leave_memory()) return;
  cudaDeviceSynchronize();  // nothing may still run when the streams and workspaces go
}

void CudaBackend::synchronize() {
  lanes_.synchronize();
  timer_.resolve(stream());
}

void CudaBackend::make_current() const { CUDA_CHECK(cudaSetDevice(device_)); }

// With operator times on, kernels are launched one by one: events inside a graph tell nothing.
bool CudaBackend::repeat(uint64_t key, const std::function<void()>& work) {
  if (timing_ || !use_graphs_) {
    work();
    return true;
  }
  make_current();
  // Memory that has grown since (for a larger batch, say) waited for all that used the old one.
  const uint64_t growths = scratch_.growths() + gradient_.growths();
  if (growths != growths_) graphs_.forget();
  growths_ = growths;
  return graphs_.run(key, work, stream(), profile());
}

size_t CudaBackend::device_bytes() const {
  size_t free = 0, total = 0;
  make_current();
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return total - free;
}

void CudaBackend::range_begin(Op op) {
  make_current();
  nvtxRangePushA(name_of(op));
  operator_open_ = times_now();
  if (!operator_open_) return;
  timer_.begin({.span = {.name = name_of(op), .lane = TraceLane::gpu}}, profile().seconds_of(op),
               stream());
}

void CudaBackend::range_end(Op) {
  if (operator_open_) timer_.end(stream());
  operator_open_ = false;
  nvtxRangePop();
}

// The ranges of operators say nothing where a recording is replayed; that of their task does.
bool CudaBackend::begin_task(const TraceSlice& slice) {
  make_current();
  nvtxRangePushA(slice.span.name);
  const TraceBuffer* trace = current_trace();
  task_open_ = trace != nullptr && trace->operators() && times_now();
  if (!task_open_) return false;
  TraceSlice on_gpu = slice;
  on_gpu.span.lane = TraceLane::gpu;
  timer_.begin(on_gpu, nullptr, stream());
  return true;
}

void CudaBackend::end_task() {
  if (task_open_) timer_.end(stream());
  task_open_ = false;
  nvtxRangePop();
}

void CudaBackend::begin_wait(TraceLane lane, double* seconds) {
  wait_open_ = times_now();
  if (wait_open_) timer_.begin({.span = {.name = name_of(lane), .lane = lane}}, seconds, stream());
}

void CudaBackend::end_wait() {
  if (wait_open_) timer_.end(stream());
  wait_open_ = false;
}

// On the compute lane a copy may stand anywhere among operators, whose slices have a lane then.
template <typename Copy>
void CudaBackend::start_copy(Lane lane, TraceLane shown, size_t bytes, Copy&& copy) {
  make_current();
  const bool timed = times_now();
  if (timed) {
    TraceSlice slice{.span = {.name = "copy", .bytes = bytes}};
    slice.span.lane = lane == Lane::compute ? TraceLane::gpu : shown;
    timer_.begin(slice, nullptr, stream(lane));
  }
  const cudaError_t status = copy(stream(lane));
  if (timed) timer_.end(stream(lane));
  CUDA_CHECK(status);
}

Buffer CudaBackend::do_allocate(size_t bytes, const char* label) {
  if (bytes == 0) return {};
  make_current();
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the refusal must not surface again at the next launch
    size_t free = 0, total = 0;
    CUDA_CHECK(cudaMemGetInfo(&free, &total));
    throw Error(ExitCode::out_of_memory,
                fmt::format("GPU {} ({}): {} for {} do not fit, {} of {} are free", device_,
                            properties_.name, format_bytes(static_cast<double>(bytes)), label,
                            format_bytes(static_cast<double>(free)),
                            format_bytes(static_cast<double>(total))),
                "use a smaller micro_batch, activation_checkpointing, or more sharding; "
                "`stretto plan` says what fits");
  }
  CUDA_CHECK(status);
  return {data, bytes, [device = device_](void* memory) {
            if (leave_memory()) return;
            cudaSetDevice(device);
            cudaFree(memory);
          }};
}

Buffer CudaBackend::do_allocate_host(size_t bytes, const char* label) {
  if (bytes == 0) return {};
  make_current();
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Error(ExitCode::out_of_memory,
                fmt::format("{} of host memory for {} could not be pinned",
                            format_bytes(static_cast<double>(bytes)), label),
                "use a smaller micro_batch or activation_checkpointing=full, raise the limit of "
                "locked memory (ulimit -l), or keep it on the GPU");
  }
  CUDA_CHECK(status);
  return {data, bytes, [](void* memory) {
            if (!leave_memory()) cudaFreeHost(memory);
          }};
}

void CudaBackend::do_start_copy_to_host(Lane lane, void* host, ConstTensor src) {
  start_copy(lane, TraceLane::gpu_to_host, src.bytes(), [&](cudaStream_t stream) {
    return cudaMemcpyAsync(host, src.data(), src.bytes(), cudaMemcpyDeviceToHost, stream);
  });
}

void CudaBackend::do_start_copy_from_host(Lane lane, Tensor dst, const void* host) {
  start_copy(lane, TraceLane::gpu_from_host, dst.bytes(), [&](cudaStream_t stream) {
    return cudaMemcpyAsync(dst.data(), host, dst.bytes(), cudaMemcpyHostToDevice, stream);
  });
}

void CudaBackend::do_copy(Tensor dst, ConstTensor src) {
  CUDA_CHECK(
      cudaMemcpyAsync(dst.data(), src.data(), dst.bytes(), cudaMemcpyDeviceToDevice, stream()));
}

void CudaBackend::do_copy_from_host(Tensor dst, const void* src) {
  // A recording would repeat the copy, but not what brings `src` into a slot.
  if (is_capturing(stream())) CUDA_CHECK(cudaErrorStreamCaptureUnsupported);
  staging_.upload(dst.data(), src, dst.bytes(), stream());
}

void CudaBackend::do_copy_to_host(void* dst, ConstTensor src) {
  CUDA_CHECK(cudaMemcpyAsync(dst, src.data(), src.bytes(), cudaMemcpyDeviceToHost, stream()));
  CUDA_CHECK(cudaStreamSynchronize(stream()));
}

void CudaBackend::do_fill_zero(Tensor t) {
  CUDA_CHECK(cudaMemsetAsync(t.data(), 0, t.bytes(), stream()));
}

}  // namespace stretto::cuda

namespace stretto {

std::unique_ptr<Backend> make_cuda_backend(int device, const CudaOptions& options) {
  return std::make_unique<cuda::CudaBackend>(device, options);
}

std::unique_ptr<Backend> make_cuda_backend(int device) { return make_cuda_backend(device, {}); }

void release_cuda_device(int device) {
  if (cudaSetDevice(device) == cudaSuccess) cudaDeviceReset();
  cudaGetLastError();
}

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

std::string cuda_device_name(int device) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) return properties.name;
  cudaGetLastError();
  return "";
}

std::string cuda_bus_id(int device) {
  char text[32] = {};
  if (cudaDeviceGetPCIBusId(text, sizeof(text), device) == cudaSuccess) return text;
  cudaGetLastError();
  return "";
}

size_t cuda_total_bytes(int device) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
    return properties.totalGlobalMem;
  }
  cudaGetLastError();
  return 0;
}

size_t cuda_free_bytes(int device) {
  size_t free = 0, total = 0;
  if (cudaSetDevice(device) == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess) {
    return free;
  }
  cudaGetLastError();
  return 0;
}

}  // namespace stretto
