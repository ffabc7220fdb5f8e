#include "backend/cuda/tensor_map.h"

#include <cuda_runtime.h>

#include "base/error.h"

namespace stretto::cuda {
namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                            CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                            CUtensorMapFloatOOBfill);

// The driver's function, found at run time: nothing links against the driver.
Encode encoder() {
  static const Encode found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                                12000, cudaEnableDefault, &result);
#else
    const cudaError_t status =
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &result);
#endif
    if (status != cudaSuccess || result != cudaDriverEntryPointSuccess) function = nullptr;
    return reinterpret_cast<Encode>(function);
  }();
  return found;
}

CUtensorMap encode(CUtensorMapDataType type, int64_t size, const void* data, int64_t rows,
                   int64_t columns, int box_rows, int box_columns, CUtensorMapSwizzle swizzle) {
  CUtensorMap map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(columns * size)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_columns),
                            static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t ones[] = {1, 1};
  const CUresult status =
      encoder()(&map, type, 2, const_cast<void*>(data), sizes, strides, box, ones,
                CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  STRETTO_CHECK(status == CUDA_SUCCESS, "a map of {} x {} at {}: error {}", rows, columns, data,
                static_cast<int>(status));
  return map;
}

}  // namespace

bool has_tensor_maps() { return encoder() != nullptr; }

CUtensorMap tensor_map(const void* data, int64_t rows, int64_t columns, int box_rows) {
  return encode(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, rows, columns, box_rows, 64,
                CU_TENSOR_MAP_SWIZZLE_128B);
}

CUtensorMap row_map(const float* data, int64_t rows, int64_t columns, int box_columns) {
  return encode(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, data, rows, columns, 1, box_columns,
                CU_TENSOR_MAP_SWIZZLE_NONE);
}

}  // namespace stretto::cuda
