// Values between host floats and a backend's tensors of any float type.
#pragma once

#include <vector>

#include "backend/backend.h"

namespace stretto {

// t = values, rounded to the tensor's type.
void assign_host_values(Backend& backend, Tensor t, const float* values);

// The tensor's elements as floats.
std::vector<float> host_values(Backend& backend, ConstTensor t);

}  // namespace stretto
