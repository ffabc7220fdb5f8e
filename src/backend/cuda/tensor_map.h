// What Hopper's copies of whole tiles need to know of a matrix in memory.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace stretto::cuda {

bool has_tensor_maps();  // false: the driver is too old
// Boxes of 64 columns and `box_rows` rows of a bf16 matrix (rows, columns), swizzled.
CUtensorMap tensor_map(const void* data, int64_t rows, int64_t columns, int box_rows);
// `box_columns` of a row, at most 256, of a matrix of f32.
CUtensorMap row_map(const float* data, int64_t rows, int64_t columns, int box_columns);

}  // namespace stretto::cuda
