// Column sums of a matrix: the gradient of a bias.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/gemm.h"

namespace stretto {

// sums = or += the sum over the rows of the first sums.count() columns of `t`. The order is fixed:
// rows are summed in ranges of fixed size, in f32, and these sums are added in row order.
void column_sums(Tensor sums, ConstTensor t, Grad mode, GemmContext& context);

}  // namespace stretto
