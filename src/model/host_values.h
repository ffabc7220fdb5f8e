// Moves values between floats on the host and a backend's tensors of any float type.
#pragma once

#include <vector>

#include "backend/backend.h"

namespace stretto {

// t = values, rounded to the tensor's type. A bf16 tensor takes the upper halves of SplitF32, a u16
// tensor the lower ones.
void assign_host_values(Backend& backend, Tensor t, const float* values);

// The tensor's elements as floats.
std::vector<float> host_values(Backend& backend, ConstTensor t);

// values = the floats whose upper halves (bf16) and lower halves (u16) are given; the two may be in
// different memories.
void join_halves(float* values, Backend& high_backend, ConstTensor high, Backend& low_backend,
                 ConstTensor low);

}  // namespace stretto
