// The gradient of qkv's bias: column sums of dq, and proj's bias gradient taken back through proj.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/linear_bias.h"
#include "backend/cpu/pieces.h"

namespace stretto {

void CpuBackend::do_qkv_bias_backward(Tensor queries, Tensor values, ConstTensor dq,
                                      ConstTensor proj_weight, ConstTensor dproj_bias) {
  column_sums(queries, dq, Grad::accumulate, gemm_);
  const int64_t n = proj_weight.rows(), c = proj_weight.last();
  constexpr int64_t kColumns = 64;
  for_ranges(threads_, c, kColumns, [&](int64_t begin, int64_t end) {
    float sum[kColumns] = {}, row[kColumns];
    for (int64_t i = 0; i < n; ++i) {
      float factor = 0;
      load_floats(&factor, dproj_bias.slice(i, i + 1).data(), dproj_bias.dtype(), 1);
      const ConstTensor part = proj_weight.view({n * c}).slice(i * c + begin, i * c + end);
      load_floats(row, part.data(), part.dtype(), end - begin);
      for (int64_t j = 0; j < end - begin; ++j) sum[j] += factor * row[j];
    }
    store_floats(values.slice(begin, end).data(), values.dtype(), sum, end - begin);
  });
}

}  // namespace stretto
