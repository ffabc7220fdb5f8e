// Values between host floats and a backend's tensors of any float type.
#pragma once

#include <vector>

#include "backend/backend.h"

namespace stretto {

// t = values, rounded to the tensor's type; u16 takes the lower halves of SplitF32, whose upper
// ones are what bf16 takes.
void assign_host_values(Backend& backend, Tensor t, const float* values);

// The tensor's elements as floats.
std::vector<float> host_values(Backend& backend, ConstTensor t);

// values = what upper and lower halves (bf16, u16), which may lie in different memories, make up.
void join_halves(float* values, Backend& high_backend, ConstTensor high, Backend& low_backend,
                 ConstTensor low);

}  // namespace stretto
