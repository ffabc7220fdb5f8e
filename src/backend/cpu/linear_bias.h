// Column sums of a matrix: the gradient of a bias.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/gemm.h"

namespace stretto {

// sums = or += the sum over the rows of the first sums.count() columns of `t`, in a fixed order:
// partial sums of fixed row ranges in f32, added in row order.
void column_sums(Tensor sums, ConstTensor t, Grad mode, GemmContext& context);

}  // namespace stretto
