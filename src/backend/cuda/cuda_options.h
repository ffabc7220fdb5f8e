// How a CUDA backend is made. No CUDA type here: any module may include this header.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "backend/backend.h"

namespace stretto {

struct CudaOptions {
  bool tf32 = false;       // f32 matrix products on the tensor cores (10 bits of mantissa)
  bool tune = true;        // time the candidate algorithms of each matrix product at first use
  bool collect = false;    // keep several algorithms of each product, for Backend::tunables()
  int way = -1;            // the way taken around every product, by number; -1: the fastest
  double settle = 0;       // with `collect`: seconds of each before the fastest are kept
  std::string tune_cache;  // file of earlier choices; empty: in the user's cache folder
  std::string attention;   // a row of the attention table (attention.h): "cudnn", ...; empty: best
  bool repeatable = true;  // false: attention may add in any order where that is faster
  bool graphs = true;      // record repeated work and replay it
  // Other threads of this process drive other GPUs: nothing may wait for those.
  bool one_of_several = false;
  bool time_operators = false;  // per-operator device times in profile(), resolved by synchronize()
  size_t gemm_workspace_bytes = size_t{64} << 20;
  size_t scratch_bytes = size_t{64} << 20;  // partial sums; grows at warm-up if a shape needs more
};

// Throws Error when the build has no CUDA, or the machine no usable GPU.
std::unique_ptr<Backend> make_cuda_backend(int device, const CudaOptions& options);

// Throws Error(io_error) where Backend::remember_tunables() could not store what was found for this
// GPU. To be asked before minutes of measuring.
void require_tune_cache(int device);

int cuda_device_count();  // 0 without a driver, and in a build without CUDA

// As its driver calls it: "NVIDIA H100 80GB HBM3"; empty without such a GPU.
std::string cuda_device_name(int device);

// Its PCI bus id, as nvidia-smi takes it; empty without such a GPU.
std::string cuda_bus_id(int device);

// Gives back what the driver holds on the GPU for this process, half a gibibyte, which would else
// stay until the process ends. No backend of that GPU may exist, nor be made later: nothing says
// that cuBLASLt notices when the kernels are gone that it has loaded.
void release_cuda_device(int device);

// Whether it is a Hopper, and this build has code for it.
bool cuda_is_hopper(int device);

// Zero without such a GPU. To ask for what is free starts the driver on it, and takes memory.
size_t cuda_total_bytes(int device);
size_t cuda_free_bytes(int device);

}  // namespace stretto
