// 8-bit floats on a CPU: emulated by rounding to the format, for tests of amp_fp8.
#pragma once

#include "tensor/tensor.h"

namespace stretto {

// The scale that maps the largest magnitude of `t` to the largest number of the format; 1 if all of
// `t` is zero. Infinities and NaN are ignored.
float fp8_scale(ConstTensor t, DType fp8, int threads);

// out = round_to_fp8(inp * scale) / scale: what a product of 8-bit operands would see. Saturates.
// out and inp may be the same tensor; f32, bf16 or f16.
void fake_quantize_fp8(Tensor out, ConstTensor inp, DType fp8, float scale, int threads);

}  // namespace stretto
